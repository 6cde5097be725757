// Programs pass the address of an `int` for the result of a thread, which is a pointer. What is
// written beyond the variable is harmless where a compiler has put nothing behind it; conversion
// moves variables, so each has room for a pointer.
#ifndef GS_COMPILER_THREAD_RESULTS_H
#define GS_COMPILER_THREAD_RESULTS_H

#include <llvm/IR/Module.h>

namespace cc
{

// Called when functions have the runtime's names.
void makeRoomForResults(llvm::Module &module);

} // namespace cc

#endif
