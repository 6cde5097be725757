#include "compiler/plugin/decide/waiting_loops.h"
#include "compiler/plugin/convert/record.h"
#include "compiler/plugin/read/flags.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

using namespace llvm;

namespace cc
{

namespace
{

// A loop with one of these lets others run as it is.
const StringRef Waits[] = {
    "sleep",      "usleep",     "nanosleep",         "clock_nanosleep",        "sched_yield",
    "thrd_yield", "thrd_sleep", "pthread_cond_wait", "pthread_cond_timedwait", "poll",
    "select",     "accept",     "pthread_yield",
};

// Whether it reads what other threads may write, according to the program.
bool readsShared(const Instruction &instruction, unsigned depth)
{
    if (const auto *load = dyn_cast<LoadInst>(&instruction))
        return (load->isAtomic() || load->isVolatile()) &&
               !isa<AllocaInst>(load->getPointerOperand());
    const Function *callee = calleeOf(instruction);
    return callee && depth && any_of(instructions(*callee), [&](const Instruction &inner) {
               return readsShared(inner, depth - 1);
           });
}

// How a processor is told that a loop waits.
bool isPause(const Instruction &instruction)
{
    const auto *call = dyn_cast<CallBase>(&instruction);
    if (call && call->isInlineAsm())
        return call->arg_empty() && call->getType()->isVoidTy();
    const Function *callee = calleeOf(instruction);
    return isa<FenceInst>(instruction) || (callee && callee->isIntrinsic() &&
                                           (callee->getName() == "llvm.x86.sse2.pause" ||
                                            callee->getName() == "llvm.aarch64.hint"));
}

bool onlyReads(const BasicBlock &block)
{
    return all_of(block, [](const Instruction &instruction) {
        return isa<LoadInst>(instruction) || isPause(instruction) ||
               !instruction.mayWriteToMemory();
    });
}

class WaitingLoop
{
  public:
    explicit WaitingLoop(const Loop &loop) : loop(loop)
    {
    }
    bool is() const;

  private:
    bool hasWait() const;
    static bool onlyLooksIn(const BasicBlock &block);
    bool maySpin() const;

    // A way from the header: each block follows the one before.
    using Way = SmallVector<const BasicBlock *, 16>;
    bool mayRepeat() const;
    bool repeats(Way &way, unsigned &steps) const;
    bool isReadAnew(const Value &value, const Way &way, unsigned depth, bool &isRead) const;
    bool leavesAllAsItIs(const Way &way) const;

    bool isOfClock(const Value &value, unsigned depth) const;

    const Loop &loop;
};

bool WaitingLoop::hasWait() const
{
    return any_of(loop.blocks(), [](const BasicBlock *block) {
        return any_of(*block, [](const Instruction &instruction) {
            const Function *callee = calleeOf(instruction);
            return callee && is_contained(Waits, callee->getName());
        });
    });
}

// Whether the block writes nothing but variables of the function.
bool WaitingLoop::onlyLooksIn(const BasicBlock &block)
{
    return all_of(block, [](const Instruction &instruction) {
        const auto *store = dyn_cast<StoreInst>(&instruction);
        const Function *callee = calleeOf(instruction);
        return !instruction.mayWriteToMemory() || isPause(instruction) ||
               isa<LoadInst>(instruction) ||
               (store && isa<AllocaInst>(store->getPointerOperand())) ||
               (callee && onlyLooks(*callee, MaxLookDepth));
    });
}

// Whether a way through the loop only looks at what other threads may write: it may add up how much
// those still have to do, or look only so often before it sleeps. The optimiser lets nested loops
// have the same first block, so that other ways through it may do more.
bool WaitingLoop::maySpin() const
{
    SmallSetVector<const BasicBlock *, 16> reached, spinning;
    const BasicBlock *header = loop.getHeader();
    if (!onlyLooksIn(*header))
        return false;
    reached.insert(header);
    for (unsigned i = 0; i < reached.size(); i++)
        for (const BasicBlock *next : successors(reached[i]))
            if (next == header)
                spinning.insert(reached[i]);
            else if (loop.contains(next) && onlyLooksIn(*next))
                reached.insert(next);
    for (unsigned i = 0; i < spinning.size(); i++)
        for (const BasicBlock *before : predecessors(spinning[i]))
            if (reached.contains(before))
                spinning.insert(before);
    return any_of(spinning, [](const BasicBlock *block) {
        return any_of(*block, [](const Instruction &instruction) {
            return readsShared(instruction, MaxLookDepth);
        });
    });
}

// Whether the value is computed from memory alone: what else it depends on is as it was before the
// way.
bool WaitingLoop::isReadAnew(const Value &value, const Way &way, unsigned depth, bool &isRead) const
{
    const auto *instruction = dyn_cast<Instruction>(&value);
    if (!instruction || !loop.contains(instruction))
        return true;
    if (!depth)
        return false;
    if (const auto *phi = dyn_cast<PHINode>(instruction)) {
        const auto *at = find(way, phi->getParent());
        if (at == way.end())
            return false;
        if (at == way.begin())
            return phi->getIncomingValueForBlock(way.back()) == phi;
        return isReadAnew(*phi->getIncomingValueForBlock(*(at - 1)), way, depth - 1, isRead);
    }
    isRead |= isa<LoadInst>(instruction);
    return (isa<LoadInst>(instruction) || isPure(*instruction)) &&
           all_of(instruction->operand_values(), [&](const Value *operand) {
               return isReadAnew(*operand, way, depth - 1, isRead);
           });
}

// Whether the loop would take the way for ever if nobody wrote to memory.
bool WaitingLoop::leavesAllAsItIs(const Way &way) const
{
    return all_of(way.front()->phis(),
                  [&](const PHINode &phi) {
                      const Value *next = phi.getIncomingValueForBlock(way.back());
                      bool isRead = false;
                      return next == &phi ||
                             (isReadAnew(*next, way, MaxValueDepth, isRead) && isRead);
                  }) &&
           any_of(way, [](const BasicBlock *block) {
               return any_of(*block, [](const Instruction &inner) { return isa<LoadInst>(inner); });
           });
}

bool WaitingLoop::repeats(Way &way, unsigned &steps) const
{
    static constexpr unsigned MaxSteps = 64;
    if (++steps > MaxSteps)
        return false;
    return any_of(successors(way.back()), [&](const BasicBlock *next) {
        if (next == way.front())
            return leavesAllAsItIs(way);
        if (!loop.contains(next) || is_contained(way, next) || !onlyReads(*next))
            return false;
        way.push_back(next);
        const bool isFound = repeats(way, steps);
        way.pop_back();
        return isFound;
    });
}

// Whether a way through the loop that only reads ends as it began: the loop waits until memory is
// different, whatever else it does on other ways.
bool WaitingLoop::mayRepeat() const
{
    Way way = {loop.getHeader()};
    unsigned steps = 0;
    return onlyReads(*way.front()) && repeats(way, steps);
}

// Whether the value depends on what time it is.
bool WaitingLoop::isOfClock(const Value &value, unsigned depth) const
{
    const auto *instruction = dyn_cast<Instruction>(&value);
    if (!instruction || !loop.contains(instruction) || !depth)
        return false;
    const Function *callee = calleeOf(*instruction);
    if (callee && callee->isIntrinsic()) // arithmetic that a sanitizer checks
        callee = nullptr;
    return (callee && (callee->getName() == "time" || callee->getName() == "clock")) ||
           (!callee && any_of(instruction->operand_values(), [&](const Value *operand) {
               return isOfClock(*operand, depth - 1);
           }));
}

// Whether the program ends on all ways from there: a loop which only an error ends has no end.
// Sanitizers add ways.
bool endsProgram(const BasicBlock &block, unsigned depth = 8)
{
    if (isa<UnreachableInst>(block.getTerminator()))
        return true;
    return depth && succ_begin(&block) != succ_end(&block) &&
           all_of(successors(&block),
                  [&](const BasicBlock *next) { return endsProgram(*next, depth - 1); });
}

// One that may spin, that has no end, or whose end depends on a flag. One that goes on until a time
// may wait only on some of its ways.
bool WaitingLoop::is() const
{
    SmallVector<BasicBlock *, 8> exits, ends;
    loop.getExitingBlocks(exits);
    loop.getExitBlocks(ends);
    const auto endsBy = [&](function_ref<bool(const Value &)> isCondition) {
        return any_of(exits, [&](const BasicBlock *block) {
            const auto *branch = dyn_cast<BranchInst>(block->getTerminator());
            return branch && branch->isConditional() && isCondition(*branch->getCondition());
        });
    };
    if (maySpin() || mayRepeat())
        return true;
    if (hasWait() && !endsBy([&](const Value &value) { return isOfClock(value, MaxValueDepth); }))
        return false;
    Flags flags(loop);
    return all_of(ends, [](const BasicBlock *end) { return endsProgram(*end); }) ||
           endsBy([&](const Value &value) { return flags.are(value); });
}

} // namespace

void addTurns(Module &module)
{
    FunctionCallee turn =
        module.getOrInsertFunction("__waiting_loop", Type::getVoidTy(module.getContext()));
    // Until countTurns, so that the optimiser keeps what it knows of memory.
    auto *called = cast<Function>(turn.getCallee());
    called->setMemoryEffects(MemoryEffects::inaccessibleMemOnly());
    called->addFnAttr(Attribute::NoUnwind);
    for (Function &function : module) {
        if (function.isDeclaration())
            continue;
        DominatorTree tree(function);
        LoopInfo loops(tree);
        for (const Loop *loop : loops.getLoopsInPreorder()) {
            if (!WaitingLoop(*loop).is())
                continue;
            BasicBlock *header = loop->getHeader();
            IRBuilder<> builder(header, header->getFirstInsertionPt());
            builder.SetCurrentDebugLocation(header->getTerminator()->getDebugLoc());
            builder.CreateCall(turn);
        }
    }
}

void countTurns(Module &module)
{
    Function *turn = module.getFunction("gs_cc___waiting_loop");
    if (!turn)
        return;
    turn->removeFnAttr(Attribute::Memory);
    State state(module);
    for (User *user : make_early_inc_range(turn->users())) {
        auto *call = dyn_cast<CallInst>(user);
        if (!call || call->getCalledOperand() != turn)
            continue;
        call->removeFnAttr(Attribute::Memory);
        IRBuilder<> builder(call);
        Instruction *then =
            SplitBlockAndInsertIfThen(state.countTurn(builder), call->getIterator(), false,
                                      MDBuilder(module.getContext()).createBranchWeights(1, 2000));
        call->moveBefore(then);
    }
}

} // namespace cc
