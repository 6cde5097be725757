#include "compiler/plugin/decide/calls.h"
#include "compiler/plugin/decide/allocator.h"
#include "compiler/plugin/read/known.h"
#include "compiler/plugin/read/runtime_names.h"
#include "compiler/plugin/read/wrappers.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

using namespace llvm;

namespace cc
{

Calls::Calls(Module &module) : module(module)
{
}

void Calls::wrap(Function &function)
{
    Function *wrapper = makeWrapper(function, takesAddress);
    if (!wrapper)
        return;
    wrapper->addFnAttr(IsWrapper);
    isAddressTaken = true;
    reasons[wrapper] = &function;
    order.insert(wrapper);
}

// ---- Which functions may wait ----

bool Calls::isForeign(const CallBase &call) const
{
    const Function *callee = calleeOf(call);
    return callee && callee->isDeclaration() &&
           (!isLibraryLeaf(callee->getName()) || (hasOwnStreams && isStream(callee->getName())));
}

// It waits by calls of its own (libraries.h of the runtime).
static bool isOfAnotherLibrary(const Function &callee)
{
    return callee.isDeclaration() && !callee.isIntrinsic() && isOfOtherLibrary(callee.getName());
}

bool Calls::waits(const CallBase &call) const
{
    if (call.isInlineAsm())
        return false;
    if (const Function *callee = calleeOf(call)) {
        const Known *known = callee->isDeclaration() ? findRuntime(callee->getName()) : nullptr;
        if (callee->isDeclaration() && isBlocking(callee->getName()))
            return true;
        if (known)
            return known->waits;
        return (reasons.count(callee) && !isAllocator(*callee)) || isOfAnotherLibrary(*callee) ||
               (isAddressTaken && isForeign(call));
    }
    return isAddressTaken || hasOtherLibraries;
}

bool Calls::findWaitingCall(Function &function)
{
    for (Instruction &instruction : instructions(function)) {
        const auto *call = dyn_cast<CallBase>(&instruction);
        if (!call || !waits(*call))
            continue;
        const Function *callee = calleeOf(*call);
        reasons[&function] = callee ? callee : &function;
        order.insert(&function);
        return true;
    }
    return false;
}

bool isStartRoutine(const CallBase &call, const Use &use)
{
    const Function *callee = calleeOf(call);
    if (!callee || !call.isArgOperand(&use))
        return false;
    const unsigned i = call.getArgOperandNo(&use);
    return (callee->getName() == "gs_cc_pthread_create" && i == 2) ||
           (callee->getName() == "gs_cc_thrd_create" && i == 1);
}

void Calls::noteAddresses(const Function &function)
{
    for (const Use &use : function.uses()) {
        const auto *call = dyn_cast<CallBase>(use.getUser());
        if (!takesAddress(use) || (call && isStartRoutine(*call, use)))
            continue;
        isAddressTaken = true;
        isVariadicAddressTaken |= function.isVarArg();
    }
}

// The compiler's own setjmp does not say so.
static bool returnsTwice(const CallInst &call)
{
    return call.hasFnAttr(Attribute::ReturnsTwice) ||
           call.getIntrinsicID() == Intrinsic::eh_sjlj_setjmp;
}

// The variables of one that asks where its stack is are there, and not on the heap.
static bool asksForStack(const CallInst &call)
{
    const Function *callee = call.getCalledFunction();
    return callee && (callee->getName() == "pthread_getattr_np" ||
                      callee->getName() == "gs_cc_pthread_getattr_np");
}

// What runs until it returns may be on another stack, and may change to this one again.
static bool changesContext(const CallInst &call)
{
    static const StringRef names[] = {"getcontext", "setcontext", "swapcontext"};
    const Function *callee = calleeOf(call);
    return callee && is_contained(names, callee->getName());
}

static const char *obstacleIn(const Instruction &instruction)
{
    if (const auto *variable = dyn_cast<AllocaInst>(&instruction)) {
        if (!variable->isStaticAlloca())
            return "its frame has no constant size";
        return variable->getAlign() > Align(16) ? "its frame needs an alignment" : nullptr;
    }
    if (isa<IndirectBrInst>(instruction) || isa<CallBrInst>(instruction))
        return "it jumps to computed labels";
    if (isa<InvokeInst>(instruction))
        return "it handles exceptions";
    const auto *call = dyn_cast<CallInst>(&instruction);
    if (call && returnsTwice(*call))
        return "it calls setjmp";
    if (call && changesContext(*call))
        return "it changes the context (ucontext.h)";
    if (call && asksForStack(*call))
        return "it asks for the stack of a thread";
    return call && call->isMustTailCall() ? "it must end in a tail call" : nullptr;
}

void Calls::findObstacle(Function &function, bool hasStack)
{
    const char *obstacle = function.isVarArg() ? "it is variadic" : nullptr;
    if (hasStack && (function.getName() == ProgramMain || function.getName() == StartOfMain))
        obstacle = "it is the first thread, which has one";
    if (isAllocator(function))
        obstacle = "it allocates memory, and does not let others run";
    // The jumps may be gone, and the labels be left.
    if (any_of(function, [](const BasicBlock &block) { return block.hasAddressTaken(); }))
        obstacle = "it jumps to computed labels";
    for (const Instruction &instruction : instructions(function))
        if (!obstacle)
            obstacle = obstacleIn(instruction);
    if (obstacle)
        obstacles[&function] = obstacle;
}

// What only functions on stacks call is never called elsewhere.
void Calls::findUnused()
{
    SetVector<const Function *> used;
    for (const Function *function : order)
        if (isConverted(*function) &&
            (!function->hasLocalLinkage() || any_of(function->uses(), takesAddress)))
            used.insert(function);
    for (size_t i = 0; i < used.size(); i++)
        for (const Instruction &instruction : instructions(*used[i])) {
            const auto *call = dyn_cast<CallBase>(&instruction);
            const Function *callee = call ? calleeOf(*call) : nullptr;
            if (callee && isConverted(*callee))
                used.insert(callee);
        }
    for (const Function *function : order)
        if (!obstacles.count(function) && !used.contains(function))
            obstacles[function] = "only functions on stacks call it";
}

void Calls::findPrimitives()
{
    // Functions of a stream of the program are called back on any stack.
    hasOwnStreams = hasOwnStreamsIn(module);
    hasOtherLibraries = usesOtherLibraries(module);
    for (Function &function : module) {
        const Known *known = function.isDeclaration() ? findRuntime(function.getName()) : nullptr;
        if (known && known->waits)
            reasons[&function] = nullptr;
    }
}

void Calls::analyse(bool hasStack)
{
    findPrimitives();
    for (bool hasChanged = true; hasChanged;) {
        hasChanged = false;
        for (Function &function : module) {
            if (function.isDeclaration() || reasons.count(&function) || !findWaitingCall(function))
                continue;
            if (!isAllocator(function))
                noteAddresses(function);
            hasChanged = true;
        }
    }
    for (Function *function : order)
        findObstacle(*function, hasStack);
    const SmallVector<Function *, 0> found(order.begin(), order.end());
    for (Function *function : found)
        if (obstacles.count(function) && !isAllocator(*function))
            wrap(*function);
    findUnused();
}

CallKind Calls::kindOf(const CallBase &call) const
{
    if (!waits(call))
        return CallKind::Plain;
    const Function *callee = calleeOf(call);
    if (!callee)
        return call.getFunctionType()->isVarArg() && isVariadicAddressTaken ? CallKind::OnStack
                                                                            : CallKind::Converted;
    if (callee->isDeclaration())
        return findRuntime(callee->getName()) ? CallKind::Primitive : CallKind::OnStack;
    if (callee->getFunctionType() != call.getFunctionType())
        return CallKind::OnStack;
    return isConverted(*callee) ? CallKind::Converted : CallKind::OnStack;
}

bool Calls::mayLeaveProgram(const CallBase &call) const
{
    return hasOtherLibraries && !calleeOf(call) && kindOf(call) == CallKind::Converted;
}

// ---- For reports ----

StringRef Calls::obstacleTo(const Function &function) const
{
    auto found = obstacles.find(&function);
    return found == obstacles.end() ? "" : found->second;
}

std::vector<const Function *> Calls::onStacks() const
{
    std::vector<const Function *> result;
    for (const Function *function : order)
        if (obstacles.count(function) && function->getName() != StartOfMain &&
            !isAllocator(*function))
            result.push_back(function);
    return result;
}

StringRef Calls::nameOf(const Function &function)
{
    StringRef name = function.getName();
    if (name == ProgramMain)
        return "main";
    if (name == StartOfMain)
        return "start of main";
    name.consume_front(RuntimePrefix);
    return name.split(".call").first;
}

std::string Calls::chainOf(const Function &function) const
{
    std::string chain = nameOf(function).str();
    SmallPtrSet<const Function *, 8> seen;
    for (const Function *at = &function; at && seen.insert(at).second;) {
        const Function *callee = reasons.lookup(at);
        const bool isPointer = callee == at;
        if (callee)
            chain += " -> " + (isPointer ? "a function through a pointer" : nameOf(*callee).str());
        at = isPointer ? nullptr : callee;
    }
    return chain;
}

} // namespace cc
