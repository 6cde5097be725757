#include "compiler/plugin/convert/locals.h"
#include "compiler/plugin/convert/frame_locals.h"
#include "compiler/plugin/read/known.h"
#include "compiler/plugin/read/source_names.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Transforms/Utils/Local.h>

using namespace llvm;

namespace cc
{

// Contents beyond this size are not copied at each wait.
static constexpr uint64_t MaxCopied = 64;

uint64_t Locals::sizeOf(const AllocaInst &variable) const
{
    return variable.getAllocationSize(function.getParent()->getDataLayout())->getFixedValue();
}

void Locals::copyParameters()
{
    BasicBlock &entry = function.getEntryBlock();
    IRBuilder<> builder(&entry, entry.getFirstInsertionPt());
    const DataLayout &layout = function.getParent()->getDataLayout();
    for (Argument &argument : function.args()) {
        Type *type = argument.getParamByValType();
        if (!type)
            continue;
        AllocaInst *copy = builder.CreateAlloca(type);
        const Align align = argument.getParamAlign().value_or(layout.getABITypeAlign(type));
        copy->setAlignment(align);
        argument.replaceAllUsesWith(copy);
        builder.CreateMemCpy(copy, align, &argument, align, layout.getTypeAllocSize(type));
    }
}

// ---- How a variable is used ----

// A call that waits until all bytes have come needs those that came before.
static bool mayWaitForAll(const CallBase &call, const Function &callee)
{
    static constexpr uint64_t WaitAll = 0x100;
    const StringRef name = Calls::nameOf(callee);
    if (!name.contains("recv"))
        return false;
    const unsigned i = name.ends_with("_chk") ? 4 : 3;
    const auto *flags =
        i < call.arg_size() ? dyn_cast<ConstantInt>(call.getArgOperand(i)) : nullptr;
    return !flags || flags->getZExtValue() & WaitAll;
}

Locals::Access Locals::callAccess(const CallBase &call, const Use &use) const
{
    const CallKind kind = calls.kindOf(call);
    if (!call.isDataOperand(&use) || !call.isArgOperand(&use))
        return Access::Escapes;
    const unsigned i = call.getArgOperandNo(&use);
    if (kind == CallKind::Converted || kind == CallKind::OnStack)
        return Access::Escapes;
    const auto *callee = dyn_cast<Function>(call.getCalledOperand());
    const Known *known = callee ? findRuntime(callee->getName()) : nullptr;
    if (known && kind == CallKind::Primitive && !(known->borrowed >> i & 1))
        return Access::Escapes;
    if (!call.isByValArgument(i) && !call.doesNotCapture(i))
        return Access::Escapes;
    const bool isOutput = known && known->written >> i & 1;
    return isOutput && !mayWaitForAll(call, *callee) ? Access::None : Access::Reads;
}

static bool isWhole(const MemIntrinsic &copy, uint64_t size)
{
    const auto *length = dyn_cast<ConstantInt>(copy.getLength());
    return length && length->getZExtValue() >= size;
}

Locals::Access Locals::accessOf(const Use &use, const AllocaInst &variable) const
{
    const auto *user = cast<Instruction>(use.getUser());
    const bool isStart = use.get() == &variable;
    const uint64_t whole = sizeOf(variable);
    if (user->isLifetimeStartOrEnd())
        return isStart ? Access::Overwrites : Access::None;
    if (const auto *load = dyn_cast<LoadInst>(user))
        return load->isSimple() ? Access::Reads : Access::Escapes;
    if (const auto *store = dyn_cast<StoreInst>(user)) {
        if (!store->isSimple() || use.getOperandNo() != StoreInst::getPointerOperandIndex())
            return Access::Escapes;
        const DataLayout &layout = function.getParent()->getDataLayout();
        const bool isAll =
            isStart && layout.getTypeStoreSize(store->getValueOperand()->getType()) >= whole;
        return isAll ? Access::Overwrites : Access::None;
    }
    if (const auto *copy = dyn_cast<MemIntrinsic>(user)) {
        if (copy->isVolatile())
            return Access::Escapes;
        if (use.getOperandNo() != 0)
            return Access::Reads;
        return isStart && isWhole(*copy, whole) ? Access::Overwrites : Access::None;
    }
    if (isa<DbgInfoIntrinsic>(user))
        return Access::None;
    const auto *call = dyn_cast<CallBase>(user);
    return call ? callAccess(*call, use) : Access::Escapes;
}

bool Locals::escapes(const Value &pointer, const AllocaInst &variable) const
{
    return any_of(pointer.uses(), [&](const Use &use) {
        if (isa<GetElementPtrInst>(use.getUser()))
            return escapes(*use.getUser(), variable);
        return accessOf(use, variable) == Access::Escapes;
    });
}

// ---- What variables hold where the function resumes ----

void Locals::noteAccesses(const Value &pointer, unsigned index)
{
    for (const Use &use : pointer.uses()) {
        if (isa<GetElementPtrInst>(use.getUser())) {
            noteAccesses(*use.getUser(), index);
            continue;
        }
        const Access access = accessOf(use, *variables[index]);
        if (access == Access::Reads || access == Access::Overwrites)
            accesses[cast<Instruction>(use.getUser())].push_back({index, access});
    }
}

bool Locals::updateLive(BasicBlock &block)
{
    BitVector now(variables.size());
    for (const BasicBlock *successor : successors(&block))
        now |= live[successor];
    for (const Instruction &instruction : reverse(block)) {
        auto found = accesses.find(&instruction);
        if (found == accesses.end())
            continue;
        for (auto [index, access] : found->second)
            if (access == Access::Overwrites)
                now.reset(index);
        for (auto [index, access] : found->second)
            if (access == Access::Reads)
                now.set(index);
    }
    const bool hasChanged = live[&block] != now;
    live[&block] = now;
    return hasChanged;
}

void Locals::findLive()
{
    accesses.clear();
    live.clear();
    for (unsigned i = 0; i < variables.size(); i++)
        noteAccesses(*variables[i], i);
    for (BasicBlock &block : function)
        live[&block].resize(variables.size());
    for (bool hasChanged = true; hasChanged;) {
        hasChanged = false;
        for (BasicBlock &block : reverse(function))
            hasChanged |= updateLive(block);
    }
}

SmallVector<AllocaInst *, 4> Locals::liveAt(BasicBlock *block) const
{
    SmallVector<AllocaInst *, 4> result;
    for (unsigned i : live.at(block).set_bits())
        result.push_back(variables[i]);
    return result;
}

// ---- Addresses ----

static Instruction *placeFor(const Use &use)
{
    auto *user = cast<Instruction>(use.getUser());
    const auto *phi = dyn_cast<PHINode>(user);
    return phi ? phi->getIncomingBlock(use)->getTerminator() : user;
}

// Compute each address that derives from the pointer directly before it is used: then it is never
// live where the function resumes.
static void sinkAddresses(Value &pointer)
{
    SmallVector<GetElementPtrInst *, 8> addresses;
    for (User *user : pointer.users())
        if (auto *address = dyn_cast<GetElementPtrInst>(user))
            addresses.push_back(address);
    for (GetElementPtrInst *address : addresses) {
        if (address->getPointerOperand() != &pointer)
            continue;
        sinkAddresses(*address);
        SmallVector<Use *, 8> uses;
        for (Use &use : address->uses())
            uses.push_back(&use);
        for (Use *use : uses) {
            Instruction *copy = address->clone();
            copy->insertBefore(placeFor(*use));
            use->set(copy);
        }
        salvageDebugInfo(*address);
        address->eraseFromParent();
    }
}

// A phi may have several entries for a block: they must stay equal.
static void unifyPhis(Function &function)
{
    for (BasicBlock &block : function)
        for (PHINode &phi : block.phis()) {
            DenseMap<BasicBlock *, Value *> known;
            for (unsigned i = 0; i < phi.getNumIncomingValues(); i++) {
                auto [at, isNew] = known.insert({phi.getIncomingBlock(i), phi.getIncomingValue(i)});
                if (!isNew)
                    phi.setIncomingValue(i, at->second);
            }
        }
}

void Locals::moveToEnvironment(ArrayRef<AllocaInst *> chosen)
{
    if (chosen.empty())
        return;
    Module &module = *function.getParent();
    LLVMContext &context = module.getContext();
    auto *pointer = PointerType::getUnqual(context);
    IRBuilder<> builder(&function.getEntryBlock(), function.getEntryBlock().begin());
    CallInst *environment = builder.CreateCall(
        module.getOrInsertFunction("gs_cc_environment", pointer, builder.getInt64Ty()),
        {builder.getInt64(0)}, "environment");
    AllocaInst *slot = addSlot(*environment);
    uint64_t end = 0;
    for (AllocaInst *variable : chosen) {
        end = alignTo(end, variable->getAlign());
        Object object = {sourceNameOf(*variable),
                         placeOfVariable(*variable),
                         sizeOf(*variable),
                         escapes(*variable, *variable),
                         nullptr,
                         environment,
                         end,
                         slot};
        object.variable = describeInBlock(*variable, *environment, slot, end);
        moved.push_back(object);
        auto *address = GetElementPtrInst::CreateInBounds(
            builder.getInt8Ty(), environment, {builder.getInt64(end)}, variable->getName(),
            variable->getIterator());
        end += sizeOf(*variable);
        for (User *user : make_early_inc_range(variable->users()))
            if (cast<Instruction>(user)->isLifetimeStartOrEnd())
                cast<Instruction>(user)->eraseFromParent();
        variable->replaceAllUsesWith(address);
        variable->eraseFromParent();
    }
    environment->setArgOperand(0, builder.getInt64(end));
    for (BasicBlock &block : function)
        if (auto *end = dyn_cast<ReturnInst>(block.getTerminator()))
            CallInst::Create(module.getOrInsertFunction("gs_cc_environment_free",
                                                        Type::getVoidTy(context), pointer),
                             {environment}, "", end->getIterator());
    sinkAddresses(*environment);
    size += end;
}

void Locals::collect()
{
    variables.clear();
    for (Instruction &instruction : instructions(function))
        if (auto *variable = dyn_cast<AllocaInst>(&instruction))
            variables.push_back(variable);
}

void Locals::place(ResumeBlocks blocks)
{
    collect();
    SmallVector<AllocaInst *, 8> chosen;
    for (AllocaInst *variable : variables)
        if (escapes(*variable, *variable))
            chosen.push_back(variable);
    erase_if(variables, [&](AllocaInst *variable) { return is_contained(chosen, variable); });
    findLive();
    for (unsigned i = 0; i < variables.size(); i++)
        if (sizeOf(*variables[i]) > MaxCopied &&
            any_of(blocks, [&](BasicBlock *block) { return live[block].test(i); }))
            chosen.push_back(variables[i]);
    // The address sanitizer knows the bounds of blocks of the heap. The block that is moved last is
    // the first to be made, and the last to be freed.
    if (function.hasFnAttribute(Attribute::SanitizeAddress))
        for (AllocaInst *variable : chosen)
            moveToEnvironment(variable);
    else
        moveToEnvironment(chosen);
    collect();
    for (AllocaInst *variable : variables)
        sinkAddresses(*variable);
    unifyPhis(function);
    findLive();
}

} // namespace cc
