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

static bool isState(const Value &address)
{
    const Value *object = getUnderlyingObject(&address, 0);
    if (const auto *call = dyn_cast<IntrinsicInst>(object))
        if (call->getIntrinsicID() == Intrinsic::threadlocal_address)
            object = call->getArgOperand(0);
    const auto *variable = dyn_cast<GlobalVariable>(object);
    return variable && variable->isThreadLocal() && variable->getName().starts_with(RuntimePrefix);
}

PreservedAnalyses LeaveStateAlone::run(Module &module, ModuleAnalysisManager &)
{
    for (Function &function : module)
        for (Instruction &instruction : instructions(function)) {
            const Value *address = getLoadStorePointerOperand(&instruction);
            if (address && isState(*address))
                instruction.setMetadata(LLVMContext::MD_nosanitize,
                                        MDNode::get(module.getContext(), {}));
        }
    return PreservedAnalyses::all();
}

} // namespace cc
