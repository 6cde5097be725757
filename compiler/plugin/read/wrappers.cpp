#include "compiler/plugin/read/wrappers.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

using namespace llvm;

namespace cc
{

const Function *calleeOf(const CallBase &call)
{
    return dyn_cast<Function>(call.getCalledOperand()->stripPointerCasts());
}

bool isCalleeOf(const Use &use)
{
    const auto *call = dyn_cast<CallBase>(use.getUser());
    return call && call->isCallee(&use);
}

bool takesAddress(const Use &use)
{
    return !isCalleeOf(use) && !isa<BlockAddress>(use.getUser());
}

Function *makeWrapper(Function &function, function_ref<bool(const Use &)> isWanted)
{
    Module &module = *function.getParent();
    if (function.isVarArg() || none_of(function.uses(), isWanted))
        return nullptr;
    Function *wrapper = Function::Create(function.getFunctionType(), GlobalValue::InternalLinkage,
                                         function.getName() + ".call", module);
    IRBuilder<> builder(BasicBlock::Create(module.getContext(), "", wrapper));
    SmallVector<Value *, 8> arguments;
    for (Argument &argument : wrapper->args())
        arguments.push_back(&argument);
    function.replaceUsesWithIf(wrapper, [&](const Use &use) { return isWanted(use); });
    CallInst *result = builder.CreateCall(&function, arguments);
    result->setCallingConv(function.getCallingConv());
    for (unsigned i = 0; i < function.arg_size(); i++)
        if (Type *type = function.getParamByValType(i))
            result->addParamAttr(i, Attribute::getWithByValType(module.getContext(), type));
    wrapper->setAttributes(result->getAttributes());
    wrapper->setCallingConv(function.getCallingConv());
    if (result->getType()->isVoidTy())
        builder.CreateRetVoid();
    else
        builder.CreateRet(result);
    return wrapper;
}

} // namespace cc
