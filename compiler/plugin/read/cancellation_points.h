// Calls at which a canceled thread ends.
#ifndef GS_COMPILER_CANCELLATION_POINTS_H
#define GS_COMPILER_CANCELLATION_POINTS_H

#include <llvm/IR/Module.h>

namespace cc
{

// Have the thread look whether it was canceled before each call of the C library that is a
// cancellation point, and that the runtime does not make.
void addCancellationPoints(llvm::Module &module);

} // namespace cc

#endif
