#include "compiler/plugin/decide/plain.h"
#include "compiler/plugin/convert/record.h"
#include "compiler/plugin/decide/stack_calls.h"
#include "compiler/plugin/read/wrappers.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/Cloning.h>

using namespace llvm;

namespace cc
{

// Calls of the copies. A pointer to a function stays what it is.
void PlainCopies::redirect(Function &caller)
{
    for (Instruction &instruction : instructions(caller)) {
        auto *call = dyn_cast<CallBase>(&instruction);
        auto *callee = call ? dyn_cast<Function>(call->getCalledOperand()) : nullptr;
        if (Function *plain = callee ? copies.lookup(callee) : nullptr)
            call->setCalledOperand(plain);
    }
}

// The backend may put what is passed by value over the address of return if the call is a jump.
static bool mayJump(const Function &function)
{
    return none_of(function.args(),
                   [](const Argument &argument) { return argument.hasByValAttr(); });
}

// A wrapper (wrappers.h) that functions with tail calls call one after another needs no stack.
static void jumpFromWrapper(Function &plain)
{
    if (!plain.hasFnAttribute(IsWrapper) || !mayJump(plain))
        return;
    auto *call = cast<CallInst>(&plain.front().front());
    if (calleeOf(*call)->getFunctionType() == plain.getFunctionType())
        call->setTailCallKind(CallInst::TCK_MustTail);
}

void PlainCopies::make()
{
    for (Function *function : calls.waiting()) {
        if (!calls.isConverted(*function))
            continue;
        ValueToValueMapTy map;
        Function *plain = CloneFunction(function, map);
        plain->setName(function->getName() + ".plain");
        plain->setLinkage(GlobalValue::InternalLinkage);
        plain->setComdat(nullptr);
        plain->setDSOLocal(true);
        jumpFromWrapper(*plain);
        copies[function] = plain;
    }
    for (auto &[function, plain] : copies) {
        redirect(*plain);
        lowerBlockingCalls(*plain);
    }
    for (Function *function : calls.waiting())
        if (!calls.isConverted(*function))
            redirect(*function);
}

// A function that only starts threads is called where the thread may leave the stack.
static bool choosesAt(const Use &use)
{
    const auto *call = dyn_cast<CallBase>(use.getUser());
    if (isa<BlockAddress>(use.getUser()))
        return false;
    if (!call)
        return true;
    const auto *function = cast<Function>(use.get());
    return call->isCallee(&use) ? call->getFunctionType() != function->getFunctionType()
                                : !isStartRoutine(*call, use);
}

// Addresses are those of `choice` from now on, and so is a name that is known outside.
static void takePlace(Function &function, Function &choice)
{
    function.replaceUsesWithIf(&choice, choosesAt);
    if (!function.hasLocalLinkage()) {
        choice.takeName(&function);
        choice.setComdat(function.getComdat());
        function.setComdat(nullptr);
        function.setName(choice.getName() + ".call");
        function.setLinkage(GlobalValue::InternalLinkage);
        function.setVisibility(GlobalValue::DefaultVisibility);
        function.setDSOLocal(true);
    } else {
        choice.setName(function.getName() + ".entry");
    }
}

static void choose(Function &function, Function &plain, Function &choice)
{
    Module &module = *function.getParent();
    State state(module);
    BasicBlock *entry = BasicBlock::Create(module.getContext(), "", &choice);
    IRBuilder<> builder(entry);
    SmallVector<Value *, 8> arguments;
    for (Argument &argument : choice.args())
        arguments.push_back(&argument);
    const auto tail = [&](Function &callee) {
        BasicBlock *block = BasicBlock::Create(module.getContext(), "", &choice);
        builder.SetInsertPoint(block);
        CallInst *result = builder.CreateCall(&callee, arguments);
        result->setCallingConv(callee.getCallingConv());
        result->setAttributes(choice.getAttributes());
        result->setTailCallKind(mayJump(choice) ? CallInst::TCK_MustTail : CallInst::TCK_NoTail);
        if (result->getType()->isVoidTy())
            builder.CreateRetVoid();
        else
            builder.CreateRet(result);
        return block;
    };
    BasicBlock *converted = tail(function), *onStack = tail(plain);
    builder.SetInsertPoint(entry);
    builder.CreateCondBr(state.loadMayLeave(builder), converted, onStack);
}

void PlainCopies::addChoice(Function &function, Function &plain)
{
    Module &module = *function.getParent();
    if (function.hasLocalLinkage() && none_of(function.uses(), choosesAt))
        return;
    Function *choice = Function::Create(function.getFunctionType(), function.getLinkage(),
                                        function.getAddressSpace(), "", &module);
    choice->copyAttributesFrom(&function);
    SmallVector<AttributeSet, 8> parameters;
    for (unsigned i = 0; i < function.arg_size(); i++)
        parameters.push_back(function.getAttributes().getParamAttrs(i));
    choice->setAttributes(
        AttributeList::get(module.getContext(), AttributeSet(), AttributeSet(), parameters));
    choice->addFnAttr(Attribute::NoUnwind);
    takePlace(function, *choice);
    choose(function, plain, *choice);
}

static bool isUsed(const Function &function)
{
    return any_of(function.users(), [&](const User *user) {
        const auto *instruction = dyn_cast<Instruction>(user);
        return !instruction || instruction->getFunction() != &function;
    });
}

// Those of functions that threads call, and nothing on a stack.
void PlainCopies::removeUnused()
{
    for (bool hasChanged = true; hasChanged;) {
        hasChanged = false;
        for (auto &[function, plain] : copies) {
            if (!plain || isUsed(*plain))
                continue;
            plain->dropAllReferences();
            plain->eraseFromParent();
            plain = nullptr;
            hasChanged = true;
        }
    }
}

bool PlainCopies::contain(const Function &function) const
{
    return any_of(copies, [&](const auto &copy) { return copy.second == &function; });
}

void PlainCopies::addChoices()
{
    for (auto &[function, plain] : copies)
        addChoice(*function, *plain);
    removeUnused();
}

} // namespace cc
