// Objects have bitcode that clang has simplified already, so a function into which nothing was
// inlined since then is not simplified again when the program is linked.
#ifndef GS_COMPILER_SIMPLIFIED_H
#define GS_COMPILER_SIMPLIFIED_H

#include <llvm/Passes/PassBuilder.h>

namespace cc
{

// Have the passes ask. Until `noteSimplified`, and from where the optimiser begins with loops and
// vectors, all of them run.
void skipSimplified(llvm::PassBuilder &builder);

// All functions are as the objects have them.
void noteSimplified(const llvm::Module &module);

} // namespace cc

#endif
