#include "compiler/plugin/read/thread_results.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

using namespace llvm;

namespace cc
{

// Functions whose second argument is where the result goes.
const char *const Joins[] = {
    "gs_cc_pthread_join",
    "gs_cc_pthread_tryjoin_np",
    "gs_cc_pthread_clockjoin_np",
    "gs_cc_pthread_timedjoin_np",
};

static void makeRoom(AllocaInst &variable, uint64_t room)
{
    const std::optional<TypeSize> size =
        variable.getAllocationSize(variable.getModule()->getDataLayout());
    if (!size || size->isScalable() || size->getFixedValue() >= room)
        return;
    IRBuilder<> builder(&variable);
    AllocaInst *larger = builder.CreateAlloca(ArrayType::get(builder.getInt8Ty(), room));
    larger->setAlignment(variable.getAlign());
    larger->takeName(&variable);
    variable.replaceAllUsesWith(larger);
    variable.eraseFromParent();
}

void makeRoomForResults(Module &module)
{
    const DataLayout &layout = module.getDataLayout();
    for (const char *name : Joins) {
        const Function *join = module.getFunction(name);
        if (!join)
            continue;
        for (const User *user : join->users()) {
            const auto *call = dyn_cast<CallBase>(user);
            // The address sanitizer is to report it.
            if (!call || call->arg_size() < 2 ||
                call->getFunction()->hasFnAttribute(Attribute::SanitizeAddress))
                continue;
            Value *result = call->getArgOperand(1);
            APInt offset(layout.getIndexTypeSizeInBits(result->getType()), 0);
            Value *object = result->stripAndAccumulateConstantOffsets(layout, offset, true);
            if (auto *variable = dyn_cast<AllocaInst>(object); variable && !offset.isNegative())
                makeRoom(*variable, offset.getZExtValue() + layout.getPointerSize());
        }
    }
}

} // namespace cc
