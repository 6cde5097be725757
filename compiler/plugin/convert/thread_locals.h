// Thread-local variables of the program belong to its threads, not to the workers that run them.
#ifndef GS_COMPILER_THREAD_LOCALS_H
#define GS_COMPILER_THREAD_LOCALS_H

#include <llvm/IR/Module.h>

namespace cc
{

// A variable that machine code or a library reaches: it stays, and the runtime has a copy of it for
// each thread (compiler/runtime/libraries/library_locals.h).
constexpr char ReachedByOthers[] = "gossamer-reached-by-others";

// Put the variables into one block for each thread, which the runtime makes when a thread first
// uses one of them.
void moveThreadLocals(llvm::Module &module);

} // namespace cc

#endif
