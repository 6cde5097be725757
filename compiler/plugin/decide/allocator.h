// An allocator of the program's own. The C library, the runtime and libraries call it as well as
// the program, at any time: so it keeps the kernel thread, like a handler of a signal, and no
// thread waits in it. What it locks is free again before another thread of the worker runs.
#ifndef GS_COMPILER_ALLOCATOR_H
#define GS_COMPILER_ALLOCATOR_H

#include <llvm/IR/Module.h>

namespace cc
{

// Whether it is malloc, or one of its relatives, and defined by the program.
bool isAllocator(const llvm::Function &function);

// Before the program is optimised: they remain functions.
void keepAllocators(llvm::Module &module);

// After functions got plain copies: those that might wait tell the runtime when they begin and
// end.
void encloseAllocators(llvm::ArrayRef<llvm::Function *> waiting);

} // namespace cc

#endif
