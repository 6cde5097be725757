// Calls that are made on a stack of their own: the arguments are put into a box on the heap, from
// which a function of the plugin's makes the call, in a thread with a stack that the runtime
// starts.
#ifndef GS_COMPILER_STACK_CALLS_H
#define GS_COMPILER_STACK_CALLS_H

#include "compiler/plugin/decide/calls.h"

namespace cc
{

// Replace the calls of the function that are to be made on a stack by calls of the runtime, which
// are primitives. Returns how many there were.
unsigned lowerStackCalls(llvm::Function &function, const Calls &calls);

// Replace the calls that block in the kernel, in a function that always runs on a stack.
void lowerBlockingCalls(llvm::Function &function);

// The function of the runtime that makes a call on a stack. Its arguments are a function, what
// it is called with, and how much stack it needs: NULL until that is known (stack_graph.h).
constexpr char OnStack[] = "gs_cc___on_stack";

// Whether the function of the runtime is one of those by which they were replaced.
bool isStackCall(const llvm::Function &function);

} // namespace cc

#endif
