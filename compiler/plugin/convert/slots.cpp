#include "compiler/plugin/convert/slots.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>

using namespace llvm;

namespace cc
{

static constexpr char Save[] = "gs_cc_save", Restore[] = "gs_cc_restore";

Slots::Slots(Function &function, Function &resume, ArrayRef<WaitingPlace> places)
    : function(function), resume(resume), places(places), module(*function.getParent()),
      context(module.getContext()), layout(module.getDataLayout()), state(module)
{
}

// ---- Where the slots are ----

static bool hasResult(const WaitingPlace &place)
{
    return !place.isPrimitive && !place.call->use_empty();
}

void Slots::reserve(Value &value, uint64_t bytes, uint64_t align)
{
    size = alignTo(size, align);
    slots[&value] = size;
    size += bytes;
}

// In the order of records, so that several are copied at once.
void Slots::layOut()
{
    for (const WaitingPlace &place : places) {
        values.insert(place.values.begin(), place.values.end());
        if (hasResult(place))
            values.insert(place.call);
    }
    for (const WaitingPlace &place : places)
        for (AllocaInst *variable : place.contents)
            if (!slots.count(variable))
                reserve(*variable, place.layout.sizeOf(*variable),
                        std::max<uint64_t>(8, variable->getAlign().value()));
    const RecordLayout &any = places.front().layout;
    for (uint64_t align : {8, 4, 2, 1})
        for (Value *value : values)
            if (any.alignOf(value).value() == align)
                reserve(*value, layout.getTypeStoreSize(value->getType()), align);
    IRBuilder<> builder(&function.getEntryBlock(), function.getEntryBlock().begin());
    frame = builder.CreateAlloca(ArrayType::get(builder.getInt8Ty(), std::max<uint64_t>(size, 1)),
                                 nullptr, "slots");
    frame->setAlignment(Align(16));
}

Value *Slots::address(IRBuilder<> &builder, const Value &value)
{
    return builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), frame,
                                              slots[const_cast<Value *>(&value)]);
}

// Variables are used where they are saved.
void Slots::moveContents()
{
    for (auto &[value, offset] : slots) {
        auto *variable = dyn_cast<AllocaInst>(value);
        if (!variable)
            continue;
        IRBuilder<> builder(context);
        builder.SetInsertPoint(frame->getParent(), std::next(frame->getIterator()));
        auto *slot = cast<Instruction>(address(builder, *variable));
        addresses.push_back(slot);
        variable->replaceAllUsesWith(slot);
        variable->eraseFromParent();
    }
}

// ---- Values ----

void Slots::storeWhereDefined(Value &value)
{
    IRBuilder<> builder(context);
    auto *instruction = dyn_cast<Instruction>(&value);
    if (!instruction)
        builder.SetInsertPoint(&function.getEntryBlock(),
                               function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    else if (isa<PHINode>(instruction))
        builder.SetInsertPoint(instruction->getParent(),
                               instruction->getParent()->getFirstInsertionPt());
    else
        builder.SetInsertPoint(instruction->getParent(), std::next(instruction->getIterator()));
    builder.CreateAlignedStore(&value, address(builder, value),
                               places.front().layout.alignOf(&value));
}

static BasicBlock *blockOf(const Use &use)
{
    auto *user = cast<Instruction>(use.getUser());
    const auto *phi = dyn_cast<PHINode>(user);
    return phi ? phi->getIncomingBlock(use) : user->getParent();
}

using Blocks = SmallPtrSet<BasicBlock *, 16>;

// The blocks at whose start the value is needed.
static Blocks blocksWhereLive(const Value &value)
{
    const auto *instruction = dyn_cast<Instruction>(&value);
    const BasicBlock *definition = instruction ? instruction->getParent() : nullptr;
    SmallVector<BasicBlock *, 16> work;
    Blocks live;
    for (const Use &use : value.uses())
        if (blockOf(use) != definition)
            work.push_back(blockOf(use));
    while (!work.empty()) {
        BasicBlock *block = work.pop_back_val();
        if (!live.insert(block).second)
            continue;
        for (BasicBlock *predecessor : predecessors(block))
            if (predecessor != definition)
                work.push_back(predecessor);
    }
    return live;
}

void Slots::readBehindWaits(Value &value)
{
    const Blocks live = blocksWhereLive(value);
    SmallVector<BasicBlock *, 16> work;
    Blocks resumed; // the function may have been resumed since the value was computed
    for (const WaitingPlace &place : places)
        if (live.contains(place.resume))
            work.push_back(place.resume);
    while (!work.empty()) {
        BasicBlock *block = work.pop_back_val();
        if (!resumed.insert(block).second)
            continue;
        for (BasicBlock *successor : successors(block))
            if (live.contains(successor))
                work.push_back(successor);
    }
    DenseMap<BasicBlock *, Value *> loaded;
    for (Use &use : make_early_inc_range(value.uses())) {
        BasicBlock *block = blockOf(use);
        if (!resumed.contains(block))
            continue;
        Value *&load = loaded[block];
        if (!load) {
            IRBuilder<> builder(block, block->getFirstInsertionPt());
            load = builder.CreateAlignedLoad(value.getType(), address(builder, value),
                                             places.front().layout.alignOf(&value));
        }
        use.set(load);
    }
}

// ---- The table ----

// Of what is side by side in both, one.
Constant *Slots::copiesOf(const WaitingPlace &place, uint64_t &ret_count)
{
    struct Copy {
        uint64_t record, slot, size;
    };
    SmallVector<Copy, 16> copies;
    for (unsigned i = 0; i < place.values.size(); i++)
        copies.push_back({place.layout.values[i], slots[place.values[i]],
                          layout.getTypeStoreSize(place.values[i]->getType())});
    for (unsigned i = 0; i < place.contents.size(); i++)
        copies.push_back({place.layout.contents[i], slots[place.contents[i]],
                          place.layout.sizeOf(*place.contents[i])});
    sort(copies, [](const Copy &one, const Copy &other) { return one.record < other.record; });
    SmallVector<uint32_t, 32> numbers;
    for (unsigned i = 0; i < copies.size(); i++) {
        Copy copy = copies[i];
        while (i + 1 < copies.size() && copies[i + 1].record == copy.record + copy.size &&
               copies[i + 1].slot == copy.slot + copy.size)
            copy.size += copies[++i].size;
        for (uint64_t number : {copy.slot, copy.record, copy.size})
            numbers.push_back(number);
    }
    ret_count = numbers.size() / 3;
    Constant *contents = ConstantDataArray::get(context, numbers);
    return new GlobalVariable(module, contents->getType(), true, GlobalValue::PrivateLinkage,
                              contents, "copies");
}

GlobalVariable *Slots::makeTable()
{
    IRBuilder<> builder(context);
    SmallVector<Constant *, 16> rows;
    StructType *type =
        StructType::get(context, {builder.getPtrTy(), builder.getPtrTy(), builder.getInt64Ty()});
    for (const WaitingPlace &place : places) {
        uint64_t count;
        Constant *copies = copiesOf(place, count);
        rows.push_back(ConstantStruct::get(type, {place.site, copies, builder.getInt64(count)}));
    }
    ArrayType *array = ArrayType::get(type, rows.size());
    return new GlobalVariable(module, array, true, GlobalValue::PrivateLinkage,
                              ConstantArray::get(array, rows), "places");
}

// ---- Code ----

void Slots::addChecks(Value *table)
{
    BasicBlock *suspend = BasicBlock::Create(context, "suspend", &function);
    IRBuilder<> builder(suspend);
    PHINode *index = builder.CreatePHI(builder.getInt64Ty(), places.size());
    builder.CreateCall(module.getOrInsertFunction(Save, builder.getVoidTy(), builder.getPtrTy(),
                                                  builder.getPtrTy(), builder.getInt64Ty()),
                       {frame, table, index});
    if (function.getReturnType()->isVoidTy())
        builder.CreateRetVoid();
    else
        builder.CreateRet(Constant::getNullValue(function.getReturnType()));
    for (unsigned i = 0; i < places.size(); i++) {
        Instruction *end = places[i].call->getParent()->getTerminator();
        builder.SetInsertPoint(end);
        builder.SetCurrentDebugLocation(places[i].call->getDebugLoc());
        builder.CreateCondBr(state.loadSuspending(builder), suspend, end->getSuccessor(0),
                             MDBuilder(context).createBranchWeights(1, 2000));
        index->addIncoming(builder.getInt64(i), end->getParent());
        end->eraseFromParent();
    }
}

BasicBlock *Slots::entryOf(const WaitingPlace &place)
{
    if (!hasResult(place))
        return place.resume;
    IRBuilder<> builder(BasicBlock::Create(context, "restore", &function));
    builder.CreateAlignedStore(state.loadResult(builder, place.call->getType()),
                               address(builder, *place.call), place.layout.alignOf(place.call));
    builder.CreateBr(place.resume);
    return builder.GetInsertBlock();
}

void Slots::addEntry(Value *table)
{
    BasicBlock &begin = function.getEntryBlock();
    BasicBlock *entry = BasicBlock::Create(context, "entry", &function, &begin);
    BasicBlock *dispatch = BasicBlock::Create(context, "dispatch", &function);
    BasicBlock *never = BasicBlock::Create(context, "never", &function);
    new UnreachableInst(context, never);
    for (Instruction &instruction : make_early_inc_range(begin))
        if (isa<AllocaInst>(instruction))
            instruction.moveBefore(*entry, entry->end());
    for (Instruction *slot : addresses)
        slot->moveBefore(*entry, entry->end());
    IRBuilder<> builder(entry);
    builder.CreateCondBr(builder.CreateIsNull(state.loadResuming(builder)), &begin, dispatch,
                         MDBuilder(context).createBranchWeights(2000, 1));
    builder.SetInsertPoint(dispatch);
    Value *index =
        builder.CreateCall(module.getOrInsertFunction(Restore, builder.getInt64Ty(),
                                                      builder.getPtrTy(), builder.getPtrTy()),
                           {frame, table});
    SwitchInst *choice = builder.CreateSwitch(index, never, places.size());
    for (unsigned i = 0; i < places.size(); i++)
        choice->addCase(builder.getInt64(i), entryOf(places[i]));
}

void Slots::makeResume()
{
    IRBuilder<> builder(BasicBlock::Create(context, "", &resume));
    SmallVector<Value *, 8> arguments;
    resume.setAttributes(AttributeList().addFnAttributes(
        context, AttrBuilder(context, function.getAttributes().getFnAttrs())));
    resume.removeFnAttr(Attribute::AlwaysInline);
    for (Argument &argument : function.args()) {
        argument.removeAttr(Attribute::Dereferenceable);
        argument.removeAttr(Attribute::DereferenceableOrNull);
        arguments.push_back(Constant::getNullValue(argument.getType()));
    }
    state.storeResuming(builder, resume.getArg(0));
    CallInst *result = builder.CreateCall(&function, arguments);
    result->setCallingConv(function.getCallingConv());
    if (!result->getType()->isVoidTy())
        state.storeResult(builder, result);
    builder.CreateRetVoid();
}

// It may continue in the middle of a scope.
static void removeScopes(Function &function)
{
    for (Instruction &instruction : make_early_inc_range(instructions(function)))
        if (instruction.isLifetimeStartOrEnd())
            instruction.eraseFromParent();
}

void Slots::apply()
{
    removeScopes(function);
    layOut();
    for (Value *value : values)
        readBehindWaits(*value);
    for (Value *value : values)
        storeWhereDefined(*value);
    GlobalVariable *table = makeTable();
    moveContents();
    addChecks(table);
    addEntry(table);
    makeResume();
}

} // namespace cc
