#include "compiler/plugin/waiting_loops.h"
#include "compiler/plugin/record.h"

#include <llvm/ADT/STLExtras.h>
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

// They answer at once what another thread decides.
const StringRef Tries[] = {
    "pthread_mutex_trylock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_trywrlock",
    "pthread_spin_trylock",
    "sem_trywait",
    "sem_getvalue",
    "mtx_trylock",
    "pthread_tryjoin_np",
};

// A loop with one of these lets others run as it is.
const StringRef Waits[] = {
    "sleep",      "usleep",     "nanosleep",         "clock_nanosleep",        "sched_yield",
    "thrd_yield", "thrd_sleep", "pthread_cond_wait", "pthread_cond_timedwait", "poll",
    "select",     "accept",     "pthread_yield",
};

const Function *calleeOf(const Instruction &instruction)
{
    const auto *call = dyn_cast<CallBase>(&instruction);
    return call ? dyn_cast<Function>(call->getCalledOperand()->stripPointerCasts()) : nullptr;
}

// Whether a call of the function writes nothing but its own variables, so that a loop may ask it
// again and again what another thread has done.
bool onlyLooks(const Function &function, unsigned depth)
{
    if (is_contained(Tries, function.getName()))
        return true;
    if (function.isIntrinsic())
        return function.onlyReadsMemory() || function.getName().starts_with("llvm.dbg") ||
               function.getName().starts_with("llvm.lifetime");
    if (function.isDeclaration() || !depth)
        return false;
    return all_of(instructions(function), [&](const Instruction &instruction) {
        if (const auto *store = dyn_cast<StoreInst>(&instruction))
            return isa<AllocaInst>(store->getPointerOperand());
        if (!isa<CallBase>(instruction))
            return true;
        const Function *callee = calleeOf(instruction);
        return callee && onlyLooks(*callee, depth - 1);
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
    bool isWritten(const Value &pointer, unsigned depth, bool &isRead) const;
    bool isFlag(const Value &value, unsigned depth, bool &isRead) const;

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

// Whether the loop writes something else than flags there.
bool WaitingLoop::isWritten(const Value &pointer, unsigned depth, bool &isRead) const
{
    const bool isVariable = isa<AllocaInst>(pointer);
    return any_of(loop.blocks(), [&](const BasicBlock *block) {
        return any_of(*block, [&](const Instruction &instruction) {
            const auto *store = dyn_cast<StoreInst>(&instruction);
            return store && store->getPointerOperand() == &pointer &&
                   !(isVariable && isFlag(*store->getValueOperand(), depth - 1, isRead));
        });
    });
}

// Whether the value is computed from memory that the loop does not write, and from nothing else
// that changes in it.
bool WaitingLoop::isFlag(const Value &value, unsigned depth, bool &isRead) const
{
    const auto *instruction = dyn_cast<Instruction>(&value);
    if (!instruction || !loop.contains(instruction))
        return true;
    if (!depth)
        return false;
    const auto isFlagToo = [&](const Value *operand) {
        return isFlag(*operand, depth - 1, isRead);
    };
    if (const auto *load = dyn_cast<LoadInst>(instruction)) {
        isRead |= load->isVolatile() || !isa<AllocaInst>(load->getPointerOperand());
        return !isWritten(*load->getPointerOperand(), depth, isRead) &&
               isFlagToo(load->getPointerOperand());
    }
    if (isa<AtomicRMWInst>(instruction) || isa<AtomicCmpXchgInst>(instruction)) {
        isRead = true;
        return isFlagToo(instruction->getOperand(0));
    }
    if (const Function *callee = calleeOf(*instruction)) {
        static constexpr unsigned Calls = 3;
        isRead = true;
        return onlyLooks(*callee, Calls) &&
               all_of(cast<CallBase>(instruction)->args(),
                      [&](const Use &argument) { return isFlagToo(argument.get()); });
    }
    const bool isPure = isa<CastInst>(instruction) || isa<CmpInst>(instruction) ||
                        isa<BinaryOperator>(instruction) || isa<GetElementPtrInst>(instruction) ||
                        isa<ExtractValueInst>(instruction) || isa<SelectInst>(instruction) ||
                        isa<FreezeInst>(instruction);
    return isPure && all_of(instruction->operand_values(), isFlagToo);
}

// One without an end, or whose end depends on a flag.
bool WaitingLoop::is() const
{
    static constexpr unsigned Depth = 10;
    SmallVector<BasicBlock *, 8> exits;
    loop.getExitingBlocks(exits);
    if (hasWait())
        return false;
    return exits.empty() || any_of(exits, [&](const BasicBlock *block) {
               bool isRead = false;
               const auto *branch = dyn_cast<BranchInst>(block->getTerminator());
               return branch && branch->isConditional() &&
                      isFlag(*branch->getCondition(), Depth, isRead) && isRead;
           });
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
