// The functions of the program that run before main.
#ifndef GS_COMPILER_CONSTRUCTORS_H
#define GS_COMPILER_CONSTRUCTORS_H

#include <llvm/IR/IRBuilder.h>

namespace cc
{

// Call them here, in the first thread: they may wait, and start threads. The arguments are main's.
void moveConstructors(llvm::Module &module, llvm::IRBuilder<> &builder,
                      llvm::ArrayRef<llvm::Value *> arguments);

} // namespace cc

#endif
