// Loops that wait for another thread, without a call that waits: for a flag that it sets, or a lock
// that they try.
#ifndef GS_COMPILER_WAITING_LOOPS_H
#define GS_COMPILER_WAITING_LOOPS_H

#include <llvm/IR/Module.h>

namespace cc
{

// Let other threads run in such loops now and then: a worker has no other chance to run them.
void addTurns(llvm::Module &module);

// Once the program is optimised: make a turn of few of these calls. The others only count.
void countTurns(llvm::Module &module);

} // namespace cc

#endif
