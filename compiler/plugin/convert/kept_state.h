// What the C library and the processor keep for each kernel thread, and programs change: the
// locale, h_errno, and how numbers are rounded.
#ifndef GS_COMPILER_KEPT_STATE_H
#define GS_COMPILER_KEPT_STATE_H

#include <llvm/IR/Module.h>

namespace cc
{

// Tells the runtime which of it the program changes: threads of a worker take it along then.
void noteKeptState(llvm::Module &module);

} // namespace cc

#endif
