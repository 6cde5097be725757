// The runtime's functions in place of those of the C library.
#ifndef GS_COMPILER_RUNTIME_NAMES_H
#define GS_COMPILER_RUNTIME_NAMES_H

#include <llvm/IR/Module.h>

namespace cc
{

// Rename them, before the program is optimised.
void renameToRuntime(llvm::Module &module);

// Whether functions of the program are called for streams of its own.
bool hasOwnStreamsIn(const llvm::Module &module);

} // namespace cc

#endif
