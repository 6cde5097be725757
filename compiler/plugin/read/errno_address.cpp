#include "compiler/plugin/read/errno_address.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

using namespace llvm;

namespace cc
{

bool isErrnoAddress(const Value &value)
{
    const auto *call = dyn_cast<CallBase>(&value);
    const auto *callee =
        call ? dyn_cast<Function>(call->getCalledOperand()->stripPointerCasts()) : nullptr;
    return callee && callee->getName() == "__errno_location";
}

// And values that are nothing else.
static SetVector<Instruction *> addressesIn(Function &function)
{
    SetVector<Instruction *> found;
    for (Instruction &instruction : instructions(function))
        if (isErrnoAddress(instruction))
            found.insert(&instruction);
    for (size_t i = 0; i < found.size(); i++)
        for (User *user : found[i]->users()) {
            auto *phi = dyn_cast<PHINode>(user);
            if (phi && all_of(phi->incoming_values(), [&](const Use &use) {
                    return use == phi || found.contains(dyn_cast<Instruction>(use));
                }))
                found.insert(phi);
        }
    return found;
}

void recomputeErrnoAddress(Function &function)
{
    const SetVector<Instruction *> found = addressesIn(function);
    const auto call = find_if(found, [](const Instruction *at) { return isErrnoAddress(*at); });
    for (Instruction *address : found)
        for (Use &use : make_early_inc_range(address->uses())) {
            auto *user = cast<Instruction>(use.getUser());
            auto *phi = dyn_cast<PHINode>(user);
            const bool isInBlock =
                !phi && !isa<PHINode>(address) && user->getParent() == address->getParent();
            if (isInBlock || found.contains(user))
                continue;
            const BasicBlock::iterator at =
                phi ? phi->getIncomingBlock(use)->getTerminator()->getIterator()
                    : user->getIterator();
            Instruction *again = (*call)->clone();
            again->insertBefore(at);
            use.set(again);
        }
    for (Instruction *address : found)
        if (isa<PHINode>(address)) {
            address->replaceAllUsesWith(PoisonValue::get(address->getType()));
            address->eraseFromParent();
        }
}

} // namespace cc
