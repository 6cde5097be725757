// Functions that take the place of others of the same type, and call them.
#ifndef GS_COMPILER_WRAPPERS_H
#define GS_COMPILER_WRAPPERS_H

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>

namespace cc
{

// The function that is called; nullptr: it is not known.
const llvm::Function *calleeOf(const llvm::CallBase &call);

bool isCalleeOf(const llvm::Use &use);

// A label refers to its function, too, and is not its address.
bool takesAddress(const llvm::Use &use);

// What takes the address of a function that cannot return early gets that of one that calls it, and
// can. Returns nullptr if no use is wanted.
llvm::Function *makeWrapper(llvm::Function &function,
                            llvm::function_ref<bool(const llvm::Use &)> isWanted);

} // namespace cc

#endif
