#include "compiler/plugin/read/flags.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

using namespace llvm;

namespace cc
{

namespace
{

// They answer at once what another thread or the system decides.
const StringRef Tries[] = {
    "clock",
    "getpid",
    "gettid",
    "sched_getcpu",
    "time",
    "pthread_mutex_trylock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_trywrlock",
    "pthread_spin_trylock",
    "sem_trywait",
    "sem_getvalue",
    "mtx_trylock",
    "pthread_tryjoin_np",
};

} // namespace

const Function *calleeOf(const Instruction &instruction)
{
    const auto *call = dyn_cast<CallBase>(&instruction);
    return call ? dyn_cast<Function>(call->getCalledOperand()->stripPointerCasts()) : nullptr;
}

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

bool isPure(const Instruction &instruction)
{
    return isa<CastInst>(instruction) || isa<CmpInst>(instruction) ||
           isa<BinaryOperator>(instruction) || isa<GetElementPtrInst>(instruction) ||
           isa<ExtractValueInst>(instruction) || isa<SelectInst>(instruction) ||
           isa<FreezeInst>(instruction);
}

Flags::Flags(const Loop &loop) : loop(loop)
{
    for (const BasicBlock *block : loop.blocks())
        for (const Instruction &instruction : *block)
            if (const auto *store = dyn_cast<StoreInst>(&instruction))
                stores[store->getPointerOperand()].push_back(store);
}

bool Flags::are(const Value &value)
{
    return kindOf(value, MaxValueDepth) == Kind::Read;
}

Flags::Kind Flags::kindOfAll(iterator_range<User::const_value_op_iterator> values, unsigned depth)
{
    Kind all = Kind::Same;
    for (const Value *value : values) {
        all = std::max(all, kindOf(*value, depth));
        if (all == Kind::Changing)
            break;
    }
    return all;
}

// What a load gets, if the loop writes nothing but flags there.
Flags::Kind Flags::kindOfMemory(const Value &pointer, unsigned depth)
{
    const auto found = stores.find(&pointer);
    if (found == stores.end())
        return Kind::Same;
    if (!isa<AllocaInst>(pointer))
        return Kind::Changing;
    Kind all = Kind::Same;
    for (const StoreInst *store : found->second) {
        all = std::max(all, kindOf(*store->getValueOperand(), depth));
        if (all == Kind::Changing)
            break;
    }
    return all;
}

Flags::Kind Flags::examine(const Instruction &instruction, unsigned depth)
{
    if (const auto *load = dyn_cast<LoadInst>(&instruction)) {
        const Value &pointer = *load->getPointerOperand();
        const bool isShared = load->isVolatile() || !isa<AllocaInst>(pointer);
        return std::max({isShared ? Kind::Read : Kind::Same, kindOfMemory(pointer, depth),
                         kindOf(pointer, depth)});
    }
    if (isa<AtomicRMWInst>(instruction) || isa<AtomicCmpXchgInst>(instruction))
        return std::max(Kind::Read, kindOf(*instruction.getOperand(0), depth));
    if (const Function *callee = calleeOf(instruction)) {
        if (!onlyLooks(*callee, MaxLookDepth))
            return Kind::Changing;
        Kind all = Kind::Read;
        for (const Use &argument : cast<CallBase>(instruction).args())
            all = std::max(all, kindOf(*argument, depth));
        return all;
    }
    return isPure(instruction) ? kindOfAll(instruction.operand_values(), depth) : Kind::Changing;
}

Flags::Kind Flags::kindOf(const Value &value, unsigned depth)
{
    const auto *instruction = dyn_cast<Instruction>(&value);
    if (!instruction || !loop.contains(instruction))
        return Kind::Same;
    if (!depth)
        return Kind::Changing;
    const std::pair<const Instruction *, unsigned> key(instruction, depth);
    const auto found = kinds.find(key);
    if (found != kinds.end())
        return found->second;
    const Kind kind = examine(*instruction, depth - 1);
    kinds[key] = kind;
    return kind;
}

} // namespace cc
