#include "compiler/plugin/read/constructors.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

using namespace llvm;

namespace cc
{

namespace
{

struct Constructor {
    uint64_t priority;
    Function *function;
};

} // namespace

static bool takes(const Function &function, ArrayRef<Value *> arguments)
{
    if (!function.getReturnType()->isVoidTy() || function.isVarArg() ||
        function.arg_size() > arguments.size())
        return false;
    return all_of(function.args(), [&](const Argument &argument) {
        return argument.getType() == arguments[argument.getArgNo()]->getType();
    });
}

// Returns an empty list if one is not understood.
static std::vector<Constructor> constructorsIn(const GlobalVariable &list,
                                               ArrayRef<Value *> arguments)
{
    std::vector<Constructor> found;
    const auto *entries = dyn_cast_or_null<ConstantArray>(list.getInitializer());
    for (unsigned i = 0; entries && i < entries->getNumOperands(); i++) {
        const auto *entry = dyn_cast<ConstantStruct>(entries->getOperand(i));
        const auto *priority = entry ? dyn_cast<ConstantInt>(entry->getOperand(0)) : nullptr;
        auto *function =
            entry ? dyn_cast<Function>(entry->getOperand(1)->stripPointerCasts()) : nullptr;
        if (!priority || !function || !takes(*function, arguments))
            return {};
        found.push_back({priority->getZExtValue(), function});
    }
    return found;
}

void moveConstructors(Module &module, IRBuilder<> &builder, ArrayRef<Value *> arguments)
{
    GlobalVariable *list = module.getGlobalVariable("llvm.global_ctors");
    if (!list)
        return;
    std::vector<Constructor> found = constructorsIn(*list, arguments);
    if (found.empty())
        return;
    list->eraseFromParent();
    stable_sort(found, [](const Constructor &one, const Constructor &other) {
        return one.priority < other.priority;
    });
    for (const Constructor &constructor : found)
        builder.CreateCall(constructor.function,
                           arguments.take_front(constructor.function->arg_size()));
}

} // namespace cc
