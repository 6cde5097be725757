// What runs on a stack of its own need not be converted: there, a call that waits keeps its stack.
// Each function that is converted has a plain copy for that, which is as fast as clang's. The first
// thread has a stack, so a program whose other threads do nothing loses nothing.
//
//     int f(int a)                      whose address is taken
//         if (state.may_leave)          the running thread is on the stack of its worker
//             return f.converted(a);
//         return f.plain(a);
//
// Other calls name the copy that they need.
#ifndef GS_COMPILER_PLAIN_H
#define GS_COMPILER_PLAIN_H

#include "compiler/plugin/decide/calls.h"

#include <llvm/ADT/MapVector.h>

namespace cc
{

class PlainCopies
{
  public:
    explicit PlainCopies(const Calls &calls) : calls(calls)
    {
    }

    // Make the copies, before anything is converted or prepared for it. What is not converted calls
    // them from now on.
    void make();

    // Have addresses of functions choose. Calls of functions as if they had another type do, too.
    void addChoices();

    bool contain(const llvm::Function &function) const;

  private:
    void redirect(llvm::Function &caller);
    void removeUnused();
    void addChoice(llvm::Function &function, llvm::Function &plain);

    const Calls &calls;
    llvm::MapVector<llvm::Function *, llvm::Function *> copies;
};

} // namespace cc

#endif
