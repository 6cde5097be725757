// The address of errno, which the optimiser takes for a constant of the function.
#ifndef GS_COMPILER_ERRNO_ADDRESS_H
#define GS_COMPILER_ERRNO_ADDRESS_H

#include <llvm/IR/Function.h>

namespace cc
{

bool isErrnoAddress(const llvm::Value &value);

// Ask for it again in each block, so that it is in no record: there is no call that waits within a
// block, and sanitizers know what it is.
void recomputeErrnoAddress(llvm::Function &function);

} // namespace cc

#endif
