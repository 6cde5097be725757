// For tests of the conversion: waits in places where the program has none.
#ifndef GS_COMPILER_STRESS_H
#define GS_COMPILER_STRESS_H

#include <llvm/IR/Module.h>

namespace cc
{

// Let threads yield in this share of all blocks, in percent; which ones is always the same.
void addYields(llvm::Module &module, unsigned percent);

} // namespace cc

#endif
