#include "compiler/plugin/convert/body.h"

using namespace llvm;

namespace cc
{

bool FlowState::merge(const FlowState &other)
{
    if (!other.isReached)
        return false;
    if (!isReached) {
        *this = other;
        return true;
    }
    const FlowState before = *this;
    held = intersect(held, other.held);
    released = unite(released, other.released);
    created |= other.created;
    published |= other.published;
    return held != before.held || released != before.released || created != before.created ||
           published != before.published;
}

bool isBefore(const Event &one, const Event &other)
{
    auto key = [](const Event &event) {
        return std::tie(event.kind, event.place, event.member, event.target, event.held,
                        event.created, event.lock, event.at, event.isPublished);
    };
    return key(one) < key(other);
}

// ---- Memory of its own ----

static bool isAllocation(const CallBase &call)
{
    const Function *callee = call.getCalledFunction();
    return callee && callee->isDeclaration() &&
           effectOf(callee->getName()).effect == Effect::Allocate;
}

static Effect effectOfCall(const CallBase &call)
{
    const Function *callee = call.getCalledFunction();
    return callee && callee->isDeclaration() ? effectOf(callee->getName()).effect : Effect::None;
}

void Body::collect()
{
    for (const Argument &argument : function.args())
        owned.try_emplace(&argument, owned.size());
    for (Instruction &instruction : instructions(function)) {
        if (const auto *store = dyn_cast<StoreInst>(&instruction))
            stores.push_back(store);
        const auto *call = dyn_cast<CallBase>(&instruction);
        bool isFresh = isa<AllocaInst>(instruction) || (call && isAllocation(*call));
        if (call && !isFresh)
            for (const Function *callee : summaries.calleesOf(*call))
                isFresh |= summaries.of(*callee).isFresh;
        if (call && effectOfCall(*call) == Effect::Create)
            creators.push_back(call);
        if (isFresh)
            owned.try_emplace(&instruction, owned.size());
    }
    for (const Instruction &instruction : instructions(function))
        if (const auto *call = dyn_cast<CallBase>(&instruction);
            call && effectOfCall(*call) == Effect::Join)
            noteJoin(*call);
    for (const StoreInst *store : stores) {
        const Value *value = store->getValueOperand();
        const Place place = of(*store->getPointerOperand());
        if (!value->getType()->isPointerTy() || !place.isKnown())
            continue;
        auto [at, isNew] = stored.try_emplace(place, value);
        if (!isNew && at->second != value)
            at->second = nullptr;
    }
}

// A loop that joins is taken to join all: behind it, none of those threads runs, also if it was not
// entered.
void Body::noteJoin(const CallBase &call)
{
    const auto *load = dyn_cast<LoadInst>(call.getArgOperand(0));
    const Loop *loop = load ? loops.getLoopFor(call.getParent()) : nullptr;
    if (!loop)
        return;
    const Place place = of(*load->getPointerOperand());
    SmallVector<Loop::Edge, 4> exits;
    loop->getExitEdges(exits);
    for (const auto &[from, to] : exits)
        joinedOn[{from, to}].push_back(place);
    if (const BranchInst *guard = loop->getLoopGuardBranch())
        for (const BasicBlock *next : guard->successors())
            if (next != loop->getLoopPreheader())
                joinedOn[{guard->getParent(), next}].push_back(place);
}

Place Body::storedAt(const Place &place)
{
    auto found = stored.find(place);
    return found != stored.end() && found->second && !place.isElement ? of(*found->second)
                                                                      : Place();
}

Place Body::ofResult(const CallBase &call)
{
    for (const Function *callee : summaries.calleesOf(call)) {
        const Summary &known = summaries.of(*callee);
        if (known.result.root == Root::Global)
            return known.result;
        if (known.result.root != Root::Parameter)
            continue;
        const unsigned i = cast<Argument>(known.result.base)->getArgNo();
        const Place start = i < call.arg_size() ? of(*call.getArgOperand(i)) : Place();
        return known.result.from(start);
    }
    return Place();
}

// An object that is taken out of a shared structure, as from a queue: with a lock, and the function
// also changes the structure. It is the thread's own from then on.
bool Body::isHandedOver(const LoadInst &load, const LockSet &held)
{
    const Place from = of(*load.getPointerOperand());
    if (held.empty() || !load.getType()->isPointerTy() || !from.isKnown() || from.root == Root::Own)
        return false;
    return any_of(stores, [&](const StoreInst *store) {
        const Place to = of(*store->getPointerOperand());
        return to.base == from.base && to.depth <= from.depth &&
               (to == from || from.isElement || from.depth > 1);
    });
}

void Body::findHandedOver()
{
    SmallVector<const LoadInst *, 4> found;
    for (BasicBlock &block : function) {
        state = states[&block];
        for (Instruction &instruction : block) {
            const auto *load = dyn_cast<LoadInst>(&instruction);
            if (load && isHandedOver(*load, state.held))
                found.push_back(load);
            execute(instruction);
        }
    }
    for (const LoadInst *load : found)
        owned.try_emplace(load, owned.size());
    if (!found.empty())
        forget();
}

void Body::publish(const Value &pointer)
{
    const Place place = of(pointer);
    auto found = place.depth == 1 ? owned.find(place.base) : owned.end();
    if (found != owned.end())
        state.published.set(found->second);
}

// Whether no other thread can know it.
bool Body::isPrivate(const Place &place) const
{
    if (!place.isKnown())
        return true;
    auto found = place.root == Root::Own ? owned.find(place.base) : owned.end();
    return found != owned.end() && !state.published.test(found->second);
}

// Whether it prepares the element of an array that the next thread gets.
bool Body::isSetUp(const Instruction &at, const Place &place) const
{
    return place.isElement && any_of(creators, [&](const CallBase *creator) {
               const Loop *loop = loops.getLoopFor(creator->getParent());
               return loop && loop->contains(&at) &&
                      any_of(creator->args(), [&](const Use &argument) {
                          auto *body = const_cast<Body *>(this);
                          return body->of(*argument.get()).base == place.base;
                      });
           });
}

// ---- The flow of the state ----

// A lock that is tried is held where the result is 0.
void Body::tryLock(BasicBlock &block, FlowState &ifTrue, FlowState &ifFalse)
{
    const auto *branch = cast<BranchInst>(block.getTerminator());
    const auto *compare = dyn_cast<ICmpInst>(branch->getCondition());
    const auto *zero = compare ? dyn_cast<ConstantInt>(compare->getOperand(1)) : nullptr;
    const auto *call = compare ? dyn_cast<CallBase>(compare->getOperand(0)) : nullptr;
    const Function *callee = call ? call->getCalledFunction() : nullptr;
    if (!zero || !zero->isZero() || !callee || !compare->isEquality())
        return;
    const LibraryCall effect = effectOf(callee->getName());
    if (effect.effect != Effect::TryLock && effect.effect != Effect::TryLockShared)
        return;
    FlowState &taken = compare->getPredicate() == ICmpInst::ICMP_EQ ? ifTrue : ifFalse;
    const unsigned lock =
        lockAt(*call->getArgOperand(effect.argument), effect.effect == Effect::TryLockShared);
    taken.held = unite(taken.held, LockSet{lock});
}

void Body::enterBlocks(BasicBlock &block, const FlowState &state)
{
    const auto *branch = dyn_cast<BranchInst>(block.getTerminator());
    SmallVector<FlowState, 2> after(block.getTerminator()->getNumSuccessors(), state);
    if (branch && branch->isConditional())
        tryLock(block, after[0], after[1]);
    for (unsigned i = 0; i < after.size(); i++) {
        const BasicBlock *next = block.getTerminator()->getSuccessor(i);
        if (auto found = joinedOn.find({&block, next}); found != joinedOn.end())
            for (const Place &place : found->second)
                after[i].created &= ~createdAt(place);
        states[next].merge(after[i]);
    }
}

void Body::flow(bool isLast)
{
    states.clear();
    FlowState &first = states[&function.getEntryBlock()];
    first.isReached = true;
    first.published.resize(owned.size());
    for (bool hasChanged = true; hasChanged;) {
        const auto before = states;
        for (BasicBlock *block : order) {
            state = states[block];
            for (Instruction &instruction : *block)
                execute(instruction);
            enterBlocks(*block, state);
        }
        hasChanged = before.size() != states.size();
        for (auto &[block, was] : before)
            hasChanged |= FlowState(was).merge(states[block]);
    }
    isRecording = isLast;
    for (BasicBlock *block : order) {
        if (!isLast)
            break;
        state = states[block];
        for (Instruction &instruction : *block)
            execute(instruction);
    }
}

void Body::execute(Instruction &instruction)
{
    if (auto found = owned.find(&instruction); found != owned.end())
        state.published.reset(found->second);
    if (const auto *load = dyn_cast<LoadInst>(&instruction)) {
        if (!load->isAtomic())
            access(*load, *load->getPointerOperand(), EventKind::Read);
    } else if (const auto *written = dyn_cast<StoreInst>(&instruction)) {
        store(*written);
    } else if (const auto *intrinsic = dyn_cast<AnyMemIntrinsic>(&instruction)) {
        copy(*intrinsic);
    } else if (auto *called = dyn_cast<CallBase>(&instruction)) {
        if (!isa<IntrinsicInst>(called))
            call(*called);
    } else if (const auto *returned = dyn_cast<ReturnInst>(&instruction)) {
        leave(*returned);
    }
}

void Body::leave(const ReturnInst &returned)
{
    end.merge(state);
    const Value *value = returned.getReturnValue();
    if (!isRecording || !value || !value->getType()->isPointerTy())
        return;
    const Place place = of(*value);
    auto found = owned.find(place.base);
    if (place.root == Root::Own && place.depth == 1 && found != owned.end()) {
        summary.isFresh = !isa<AllocaInst>(place.base);
        summary.isFreshPublished |= state.published.test(found->second);
    } else if (place.isKnown() && !summary.result.isKnown()) {
        summary.result = place;
    }
}

// ---- Instructions ----

void Body::record(Event event)
{
    if (!isRecording)
        return;
    if (events.size() < summaries.limit())
        events.insert(std::move(event));
    else
        summaries.cut();
}

void Body::access(const Instruction &at, const Value &pointer, EventKind kind)
{
    if (!isRecording)
        return;
    Event event;
    event.kind = kind;
    event.place = of(pointer);
    if (isPrivate(event.place) || isSetUp(at, event.place))
        return;
    event.isVolatile = at.isVolatile();
    auto found = owned.find(event.place.base);
    event.isPublished = found != owned.end() && state.published.test(found->second);
    event.member = memberOf(at, pointer);
    if (event.member.type.empty())
        event.member = summaries.types().memberAt(event.place);
    event.held = state.held;
    event.created = state.created;
    event.step = summaries.step(&at, nullptr);
    record(std::move(event));
}

void Body::store(const StoreInst &store)
{
    const Value &pointer = *store.getPointerOperand(), &value = *store.getValueOperand();
    if (value.getType()->isPointerTy()) {
        Event link;
        link.kind = EventKind::Link;
        link.place = of(pointer);
        link.target = of(value);
        link.step = nullptr;
        const bool isLocal = link.place.root == Root::Own && link.place.depth == 1;
        if (!isLocal || !isPrivate(link.place))
            publish(value);
        if (link.place.isKnown() && link.target.isKnown())
            record(std::move(link));
    }
    if (!store.isAtomic())
        access(store, pointer, EventKind::Write);
}

void Body::copy(const AnyMemIntrinsic &intrinsic)
{
    access(intrinsic, *intrinsic.getRawDest(), EventKind::Write);
    if (const auto *transfer = dyn_cast<AnyMemTransferInst>(&intrinsic))
        access(intrinsic, *transfer->getRawSource(), EventKind::Read);
}

unsigned Body::lockAt(const Value &pointer, bool isShared)
{
    Lock lock;
    lock.place = of(pointer);
    lock.isShared = isShared;
    if (const auto *at = dyn_cast<Instruction>(&pointer))
        lock.member = memberOf(*at, pointer);
    if (lock.member.type.empty())
        lock.member = summaries.types().memberAt(lock.place);
    return summaries.numberOf(lock);
}

void Body::acquire(const CallBase &call, const Value &pointer, bool isShared)
{
    const unsigned lock = lockAt(pointer, isShared);
    state.held = unite(state.held, LockSet{lock});
    if (!isRecording)
        return;
    Event event;
    event.kind = EventKind::Enter;
    event.place = summaries.lock(lock).place;
    event.member = summaries.lock(lock).member;
    event.held = state.held;
    event.lock = lock;
    event.at = &call;
    event.created = state.created;
    event.step = summaries.step(&call, nullptr);
    record(std::move(event));
}

void Body::release(const Value &pointer)
{
    for (bool isShared : {false, true}) {
        const unsigned lock = lockAt(pointer, isShared);
        if (contains(state.held, lock))
            erase(state.held, lock);
        else
            state.released = unite(state.released, LockSet{lock});
    }
}

void Body::library(CallBase &call, const LibraryCall &effect)
{
    const unsigned i = effect.argument;
    if (i >= call.arg_size())
        return;
    switch (effect.effect) {
    case Effect::Lock:
    case Effect::LockShared:
        acquire(call, *call.getArgOperand(i), effect.effect == Effect::LockShared);
        break;
    case Effect::TryLock:
    case Effect::TryLockShared: {
        const LockSet held = state.held;
        acquire(call, *call.getArgOperand(i), effect.effect == Effect::TryLockShared);
        state.held = held;
        break;
    }
    case Effect::Unlock:
        release(*call.getArgOperand(i));
        break;
    case Effect::Create:
        if (i + 1 < call.arg_size())
            create(call, i);
        break;
    case Effect::Join:
        join(call);
        break;
    case Effect::Write:
        access(call, *call.getArgOperand(i), EventKind::Write);
        break;
    default:
        break;
    }
}

void Body::finish()
{
    summary.events.assign(events.begin(), events.end());
    summary.acquired = end.held;
    summary.released = end.released;
    for (Creation &creation : summary.creations)
        creation.isJoined = !(end.created >> (&creation - summary.creations.data()) & 1);
    for (const Argument &argument : function.args())
        summary.escapes.push_back(end.isReached && end.published.test(owned.lookup(&argument)));
    llvm::sort(summary.joins);
    summary.joins.erase(std::unique(summary.joins.begin(), summary.joins.end()),
                        summary.joins.end());
    summary.isKnown = true;
}

void Body::run()
{
    collect();
    flow(false);
    findHandedOver();
    end = FlowState();
    flow(true);
    finish();
}

void summarise(Function &function, Summaries &summaries, Summary &summary)
{
    Body(function, summaries, summary).run();
}

} // namespace cc
