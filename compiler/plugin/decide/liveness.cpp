#include "compiler/plugin/decide/liveness.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

using namespace llvm;

namespace cc
{

// Walk backwards from each use to the definition.
void Liveness::add(Value &value)
{
    const auto *instruction = dyn_cast<Instruction>(&value);
    const BasicBlock *definition = instruction ? instruction->getParent() : nullptr;
    SmallVector<const BasicBlock *, 16> work;
    SmallPtrSet<const BasicBlock *, 16> seen;
    for (const Use &use : value.uses()) {
        const auto *user = cast<Instruction>(use.getUser());
        const auto *phi = dyn_cast<PHINode>(user);
        const BasicBlock *block = phi ? phi->getIncomingBlock(use) : user->getParent();
        if (block != definition)
            work.push_back(block);
    }
    while (!work.empty()) {
        const BasicBlock *block = work.pop_back_val();
        if (!seen.insert(block).second)
            continue;
        live[block].push_back(&value);
        for (const BasicBlock *predecessor : predecessors(block))
            if (predecessor != definition)
                work.push_back(predecessor);
    }
}

Liveness::Liveness(Function &function)
{
    for (Argument &argument : function.args())
        add(argument);
    for (Instruction &instruction : instructions(function))
        if (!isa<AllocaInst>(instruction) && !instruction.getType()->isVoidTy())
            add(instruction);
}

ArrayRef<Value *> Liveness::liveAt(const BasicBlock &block) const
{
    auto found = live.find(&block);
    return found == live.end() ? ArrayRef<Value *>() : ArrayRef<Value *>(found->second);
}

} // namespace cc
