#include "compiler/plugin/convert/convert.h"
#include "compiler/plugin/convert/frame_locals.h"
#include "compiler/plugin/convert/locals.h"
#include "compiler/plugin/convert/record.h"
#include "compiler/plugin/convert/slots.h"
#include "compiler/plugin/decide/liveness.h"
#include "compiler/plugin/decide/stack_calls.h"
#include "compiler/plugin/read/errno_address.h"
#include "compiler/plugin/read/known_variables.h"
#include "compiler/plugin/read/source_names.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>
#include <llvm/Transforms/Utils/SSAUpdater.h>

using namespace llvm;

namespace cc
{

namespace
{

// A call that may wait, and what surrounds it.
struct Wait {
    CallBase *call;
    bool isPrimitive;
    BasicBlock
        *resume; // where the function continues: a primitive's call itself, or after the call
    BasicBlock *suspend; // where the record is made
    SmallVector<Value *, 8> values;
    SmallVector<AllocaInst *, 4> contents;
    RecordLayout layout;
    GlobalVariable *site;
    SmallVector<RestoredLocal, 4> locals;
};

class Converter
{
  public:
    Converter(Function &function, const Calls &calls)
        : function(function), calls(calls), module(*function.getParent()), state(module)
    {
    }
    Converted convert(const Job &job);

  private:
    void removeRestores();
    void hoistVariables();
    void split();
    void findLive(const Locals &locals);
    void makeSites(const Locals &locals);
    void addChecks();
    void addCheck(Wait &wait);
    void save(IRBuilder<> &builder, const Wait &wait);
    void makeResume();
    bool isLong() const;
    bool mayUseSlots() const;
    void useSlots();
    BasicBlock *restore(const Wait &wait, ValueToValueMapTy &map, KnownVariables &known);
    void joinValues(ValueToValueMapTy &map, KnownVariables &known);
    void returnThroughState(ValueToValueMapTy &map);
    static SiteKind kindOf(const Wait &wait);
    Converted describe(const Locals &locals) const;

    Function &function;
    const Calls &calls;
    Module &module;
    State state;
    SmallVector<Wait, 8> waits;
    Function *resume = nullptr;
    MapVector<Value *, SmallVector<std::pair<BasicBlock *, Value *>, 4>> restored;
    unsigned stackCalls = 0;
};

// No variable of unknown size is left: the stack pointer must not be set to what it was before a
// wait.
void Converter::removeRestores()
{
    for (Instruction &instruction : make_early_inc_range(instructions(function))) {
        auto *call = dyn_cast<IntrinsicInst>(&instruction);
        if (call && call->getIntrinsicID() == Intrinsic::stackrestore)
            call->eraseFromParent();
    }
}

// Splitting a block must not leave a variable behind the entry.
void Converter::hoistVariables()
{
    BasicBlock &entry = function.getEntryBlock();
    for (Instruction &instruction : make_early_inc_range(entry))
        if (isa<AllocaInst>(instruction))
            instruction.moveBefore(entry, entry.begin());
}

void Converter::split()
{
    for (Instruction &instruction : instructions(function)) {
        auto *call = dyn_cast<CallBase>(&instruction);
        const CallKind kind = call ? calls.kindOf(*call) : CallKind::Plain;
        if (kind != CallKind::Plain)
            waits.push_back({call, kind == CallKind::Primitive, {}, {}, {}, {}, {}, {}, {}});
    }
    for (Wait &wait : waits) {
        if (auto *call = dyn_cast<CallInst>(wait.call))
            call->setTailCall(false);
        BasicBlock *before = wait.call->getParent();
        BasicBlock *at = wait.isPrimitive ? before->splitBasicBlock(wait.call, "wait") : before;
        BasicBlock *after = at->splitBasicBlock(wait.call->getNextNode(), "continue");
        wait.resume = wait.isPrimitive ? at : after;
    }
}

void Converter::findLive(const Locals &locals)
{
    Liveness liveness(function);
    for (Wait &wait : waits) {
        wait.contents = locals.liveAt(wait.resume);
        for (Value *value : liveness.liveAt(*wait.resume))
            if (value != wait.call)
                wait.values.push_back(value);
        wait.layout = RecordLayout(module.getDataLayout(), wait.values, wait.contents);
    }
}

void Converter::makeSites(const Locals &locals)
{
    FunctionType *type = FunctionType::get(Type::getVoidTy(module.getContext()),
                                           {PointerType::getUnqual(module.getContext())}, false);
    resume = Function::Create(type, GlobalValue::InternalLinkage, function.getName() + ".resume",
                              module);
    for (unsigned i = 0; i < waits.size(); i++) {
        Wait &wait = waits[i];
        const FrameLocals found(*wait.call, wait.values, wait.contents, locals.objects());
        wait.site =
            state.makeSite(*resume, *wait.call, i, wait.layout.size, found.textFor(wait.layout));
        wait.locals = found.restored();
    }
}

// ---- The function itself ----

void Converter::save(IRBuilder<> &builder, const Wait &wait)
{
    Value *record = state.makeRecord(builder, *wait.site);
    for (unsigned i = 0; i < wait.values.size(); i++)
        builder.CreateAlignedStore(wait.values[i],
                                   state.field(builder, record, wait.layout.values[i]),
                                   wait.layout.alignOf(wait.values[i]));
    for (unsigned i = 0; i < wait.contents.size(); i++)
        builder.CreateMemCpy(state.field(builder, record, wait.layout.contents[i]), Align(8),
                             wait.contents[i], wait.contents[i]->getAlign(),
                             wait.layout.sizeOf(*wait.contents[i]));
}

void Converter::addCheck(Wait &wait)
{
    LLVMContext &context = module.getContext();
    BasicBlock *at = wait.call->getParent();
    BasicBlock *after = at->getSingleSuccessor();
    wait.suspend = BasicBlock::Create(context, "suspend", &function);
    IRBuilder<> builder(at->getTerminator());
    builder.SetCurrentDebugLocation(wait.call->getDebugLoc());
    Value *isSuspending = state.loadSuspending(builder);
    builder.CreateCondBr(isSuspending, wait.suspend, after,
                         MDBuilder(context).createBranchWeights(1, 2000));
    at->getTerminator()->eraseFromParent();
    builder.SetInsertPoint(wait.suspend);
    save(builder, wait);
    if (function.getReturnType()->isVoidTy())
        builder.CreateRetVoid();
    else
        builder.CreateRet(Constant::getNullValue(function.getReturnType()));
}

void Converter::addChecks()
{
    for (Wait &wait : waits)
        addCheck(wait);
}

// ---- The function that resumes ----

BasicBlock *Converter::restore(const Wait &wait, ValueToValueMapTy &map, KnownVariables &known)
{
    BasicBlock *block = BasicBlock::Create(module.getContext(), "restore", resume);
    IRBuilder<> builder(block);
    Value *record = resume->getArg(0);
    for (unsigned i = 0; i < wait.values.size(); i++) {
        Value *loaded = builder.CreateAlignedLoad(
            wait.values[i]->getType(), state.field(builder, record, wait.layout.values[i]),
            wait.layout.alignOf(wait.values[i]));
        restored[wait.values[i]].push_back({block, loaded});
    }
    for (unsigned i = 0; i < wait.contents.size(); i++)
        builder.CreateMemCpy(map[wait.contents[i]], wait.contents[i]->getAlign(),
                             state.field(builder, record, wait.layout.contents[i]), Align(8),
                             wait.layout.sizeOf(*wait.contents[i]));
    for (const RestoredLocal &local : wait.locals)
        if (local.slot)
            cc::describe(local, *restored[local.value].back().second, *block, map);
    state.freeRecord(builder, record);
    if (!wait.isPrimitive && !wait.call->use_empty())
        restored[wait.call].push_back({block, state.loadResult(builder, wait.call->getType())});
    BasicBlock *next = cast<BasicBlock>(map[wait.resume]);
    builder.CreateBr(next);
    DenseMap<Value *, Value *> here;
    for (const auto &[value, definitions] : restored)
        if (definitions.back().first == block)
            here[map[value]] = definitions.back().second;
    for (AllocaInst *variable : wait.contents)
        here[map[variable]] = map[variable];
    describeKnown(known.before(*next), *block, [&](Value *value) { return here.lookup(value); });
    describeConstants(known.before(*next), *next);
    return block;
}

// What the updater has where the block begins, without a new join.
static Value *valueIn(const BasicBlock *block, SSAUpdater &updater)
{
    SmallPtrSet<const BasicBlock *, 8> seen;
    for (; block && seen.insert(block).second; block = block->getUniquePredecessor())
        if (Value *value = updater.FindValueForBlock(const_cast<BasicBlock *>(block)))
            return value;
    return nullptr;
}

// Each value that was restored somewhere now has several definitions. Debuggers are told of the
// joins.
void Converter::joinValues(ValueToValueMapTy &map, KnownVariables &known)
{
    const DominatorTree dominators(*resume);
    SmallVector<std::tuple<DbgVariableRecord *, Value *, Value *>, 8> changes;
    for (auto &[value, definitions] : restored) {
        Value *original = map[value];
        auto *instruction = dyn_cast<Instruction>(original);
        SmallVector<PHINode *, 8> joins;
        SSAUpdater updater(&joins);
        updater.Initialize(original->getType(), value->getName());
        if (instruction)
            updater.AddAvailableValue(instruction->getParent(), instruction);
        for (auto [block, loaded] : definitions)
            updater.AddAvailableValue(block, loaded);
        const auto isNear = [&](const BasicBlock *block) {
            return instruction && block == instruction->getParent();
        };
        for (Use &use : make_early_inc_range(original->uses())) {
            auto *user = cast<Instruction>(use.getUser());
            if (!isNear(user->getParent()) || isa<PHINode>(user))
                updater.RewriteUse(use);
        }
        SmallVector<DbgVariableIntrinsic *, 1> none;
        SmallVector<DbgVariableRecord *, 4> records;
        findDbgUsers(none, original, &records);
        for (DbgVariableRecord *record : records)
            if (!record->isDbgDeclare() && !isNear(record->getParent()) &&
                !(instruction && dominators.dominates(instruction, record->getParent())))
                changes.push_back({record, original, valueIn(record->getParent(), updater)});
        for (PHINode *join : joins)
            describeJoined(known.before(*join->getParent()), *join->getParent(), *original, *join);
    }
    for (auto [record, from, to] : changes)
        record->replaceVariableLocationOp(from, to ? to : PoisonValue::get(from->getType()), true);
}

void Converter::returnThroughState(ValueToValueMapTy &map)
{
    SmallPtrSet<BasicBlock *, 8> suspends;
    for (const Wait &wait : waits)
        suspends.insert(cast<BasicBlock>(map[wait.suspend]));
    for (BasicBlock &block : *resume) {
        auto *end = dyn_cast<ReturnInst>(block.getTerminator());
        if (!end)
            continue;
        IRBuilder<> builder(end);
        if (end->getReturnValue() && !suspends.contains(&block))
            state.storeResult(builder, end->getReturnValue());
        builder.CreateRetVoid();
        end->eraseFromParent();
    }
}

// The function may continue in the middle of a scope.
static void removeLifetimes(Function &function)
{
    for (Instruction &instruction : make_early_inc_range(instructions(function)))
        if (instruction.isLifetimeStartOrEnd())
            instruction.eraseFromParent();
}

// The clone of a function has the result of the resume function, so its body moves there.
void Converter::makeResume()
{
    ValueToValueMapTy map;
    Function *clone = CloneFunction(&function, map);
    resume->splice(resume->begin(), clone);
    KnownVariables known(*resume);
    resume->setSubprogram(clone->getSubprogram());
    resume->setAttributes(AttributeList().addFnAttributes(
        module.getContext(),
        AttrBuilder(module.getContext(), function.getAttributes().getFnAttrs())));
    resume->removeFnAttr(Attribute::AlwaysInline);
    BasicBlock *begin = &resume->getEntryBlock();
    BasicBlock *entry = BasicBlock::Create(module.getContext(), "entry", resume, begin);
    BasicBlock *never = BasicBlock::Create(module.getContext(), "never", resume);
    new UnreachableInst(module.getContext(), never);
    for (Instruction &instruction : make_early_inc_range(*begin))
        if (isa<AllocaInst>(instruction))
            instruction.moveBefore(*entry, entry->end());
    IRBuilder<> builder(entry);
    SwitchInst *dispatch =
        builder.CreateSwitch(state.loadIndex(builder, resume->getArg(0)), never, waits.size());
    for (unsigned i = 0; i < waits.size(); i++)
        dispatch->addCase(builder.getInt32(i), restore(waits[i], map, known));
    SmallPtrSet<const Value *, 8> contents;
    for (const Wait &wait : waits)
        for (AllocaInst *variable : wait.contents)
            contents.insert(map[variable]);
    moveDeclarations(*begin, *entry, [&](const Value *at) { return contents.contains(at); });
    removeLifetimes(*resume);
    joinValues(map, known);
    returnThroughState(map);
    clone->setSubprogram(nullptr);
    for (Argument &argument : clone->args())
        argument.replaceAllUsesWith(PoisonValue::get(argument.getType()));
    clone->eraseFromParent();
    removeUnreachableBlocks(*resume);
}

// Code that is generated twice is worth its time only in a short function. Without optimisation it
// is as slow either way; records show more to a debugger.
bool Converter::isLong() const
{
    static constexpr unsigned MaxCloned = 1000, MaxClonedAsItIs = 50;
    const bool isQuick = function.hasOptNone() && !function.getSubprogram();
    return function.getInstructionCount() > (isQuick ? MaxClonedAsItIs : MaxCloned);
}

// The function that resumes has no arguments for it.
bool Converter::mayUseSlots() const
{
    return none_of(function.args(),
                   [](const Argument &argument) { return argument.hasByValAttr(); });
}

void Converter::useSlots()
{
    std::vector<WaitingPlace> places;
    for (const Wait &wait : waits)
        places.push_back({wait.call, wait.isPrimitive, wait.resume, wait.values, wait.contents,
                          wait.layout, wait.site});
    Slots(function, *resume, places).apply();
}

SiteKind Converter::kindOf(const Wait &wait)
{
    const auto *callee = dyn_cast<Function>(wait.call->getCalledOperand());
    if (!callee)
        return SiteKind::Pointer;
    if (!wait.isPrimitive)
        return SiteKind::Function;
    return isStackCall(*callee) ? SiteKind::Stack : SiteKind::Primitive;
}

Converted Converter::describe(const Locals &locals) const
{
    Converted result = {&function, locals.environmentSize(), stackCalls, {}, locals.objects()};
    for (const Wait &wait : waits) {
        const auto *callee = dyn_cast<Function>(wait.call->getCalledOperand());
        Site site = {kindOf(wait), callee, wait.call->getDebugLoc(), wait.layout.size, {}};
        for (Value *value : wait.values)
            site.live.push_back(
                {sourceNameOf(*value), module.getDataLayout().getTypeStoreSize(value->getType())});
        for (AllocaInst *variable : wait.contents)
            site.live.push_back({sourceNameOf(*variable), wait.layout.sizeOf(*variable)});
        result.sites.push_back(site);
    }
    return result;
}

Converted Converter::convert(const Job &job)
{
    Locals locals(function, calls);
    locals.copyParameters();
    stackCalls = lowerStackCalls(function, calls);
    removeRestores();
    hoistVariables();
    split();
    recomputeErrnoAddress(function);
    SmallVector<BasicBlock *, 8> blocks;
    for (const Wait &wait : waits)
        blocks.push_back(wait.resume);
    locals.place(blocks);
    findLive(locals);
    makeSites(locals);
    const Converted result = describe(locals);
    if (mayUseSlots() && (job.useSlots || isLong())) {
        useSlots();
        return result;
    }
    addChecks();
    makeResume();
    return result;
}

const Attribute::AttrKind Assumptions[] = {
    Attribute::Returned,    Attribute::NoCapture,  Attribute::ReadOnly,
    Attribute::ReadNone,    Attribute::WriteOnly,  Attribute::NoAlias,
    Attribute::NoUndef,     Attribute::StructRet,  Attribute::Range,
    Attribute::NonNull,     Attribute::Writable,   Attribute::DeadOnUnwind,
    Attribute::Initializes, Attribute::AllocAlign, Attribute::AllocatedPointer,
};
const Attribute::AttrKind ResultAssumptions[] = {
    Attribute::NoUndef,
    Attribute::NonNull,
    Attribute::NoAlias,
    Attribute::Range,
    Attribute::Alignment,
    Attribute::Dereferenceable,
    Attribute::DereferenceableOrNull,
    Attribute::NoFPClass,
};
const Attribute::AttrKind FunctionAssumptions[] = {
    Attribute::NoReturn, Attribute::WillReturn,   Attribute::Memory,    Attribute::NoSync,
    Attribute::NoFree,   Attribute::Speculatable, Attribute::AllocSize, Attribute::AllocKind,
};

AttributeList relaxed(AttributeList list, LLVMContext &context, unsigned arguments)
{
    for (Attribute::AttrKind kind : FunctionAssumptions)
        list = list.removeFnAttribute(context, kind);
    list = list.removeFnAttribute(context, "alloc-family");
    for (Attribute::AttrKind kind : ResultAssumptions)
        list = list.removeRetAttribute(context, kind);
    for (unsigned i = 0; i < arguments; i++)
        for (Attribute::AttrKind kind : Assumptions)
            list = list.removeParamAttribute(context, i, kind);
    return list;
}

} // namespace

Converted convert(Function &function, const Calls &calls, const Job &job)
{
    return Converter(function, calls).convert(job);
}

void relaxAttributes(Module &module, const Calls &calls)
{
    for (Function &function : module) {
        LLVMContext &context = module.getContext();
        if (calls.isConverted(function) && !function.isDeclaration())
            function.setAttributes(relaxed(function.getAttributes(), context, function.arg_size()));
        for (Instruction &instruction : instructions(function)) {
            auto *call = dyn_cast<CallBase>(&instruction);
            if (call && calls.kindOf(*call) == CallKind::Converted)
                call->setAttributes(relaxed(call->getAttributes(), context, call->arg_size()));
        }
    }
}

} // namespace cc
