#include "compiler/plugin/sanitizers.h"
#include "compiler/plugin/known.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

using namespace llvm;

namespace cc
{

static bool isStateItself(const Value *object)
{
    if (const auto *call = dyn_cast<IntrinsicInst>(object))
        if (call->getIntrinsicID() == Intrinsic::threadlocal_address)
            object = call->getArgOperand(0);
    const auto *variable = dyn_cast<GlobalVariable>(object);
    return variable && variable->isThreadLocal() && variable->getName().starts_with(RuntimePrefix);
}

static bool isState(const Value &address)
{
    SmallVector<const Value *, 4> objects;
    getUnderlyingObjects(&address, objects, nullptr, 0);
    return any_of(objects, isStateItself); // stores to it and to a record may be one
}

static bool isOfRuntime(const Instruction &instruction)
{
    const auto *call = dyn_cast<CallInst>(&instruction);
    const auto *callee = call ? dyn_cast<Function>(call->getCalledOperand()) : nullptr;
    return callee && callee->isDeclaration() && callee->getName().starts_with(RuntimePrefix);
}

// What a call of the runtime does is no access of the program's.
static void ignoreRuntime(Function &function)
{
    Module &module = *function.getParent();
    Type *const nothing = Type::getVoidTy(module.getContext());
    SmallVector<Instruction *, 16> found;
    for (Instruction &instruction : instructions(function))
        if (isOfRuntime(instruction))
            found.push_back(&instruction);
    for (Instruction *call : found) {
        CallInst::Create(module.getOrInsertFunction("__tsan_ignore_thread_begin", nothing), "",
                         call->getIterator());
        CallInst::Create(module.getOrInsertFunction("__tsan_ignore_thread_end", nothing), "",
                         call->getNextNode()->getIterator());
    }
}

PreservedAnalyses LeaveStateAlone::run(Module &module, ModuleAnalysisManager &)
{
    for (Function &function : module) {
        if (function.hasFnAttribute(Attribute::SanitizeThread))
            ignoreRuntime(function);
        for (Instruction &instruction : instructions(function)) {
            const Value *address = getLoadStorePointerOperand(&instruction);
            if (address && isState(*address))
                instruction.setMetadata(LLVMContext::MD_nosanitize,
                                        MDNode::get(module.getContext(), {}));
        }
    }
    return PreservedAnalyses::none();
}

} // namespace cc
