// What calls do: threads that are created and joined, and the effects of callees, in terms of their
// caller.
#include "compiler/plugin/convert/body.h"

using namespace llvm;

namespace cc
{

// More threads than bits are not told apart.
static constexpr unsigned MaxCreations = 63;

// ---- Threads ----

// Whether each of several threads that are started here gets an object that the others do not.
bool Body::isOwnArgument(const Instruction &at, const Place &argument) const
{
    const Loop *loop = loops.getLoopFor(at.getParent());
    if (argument.root == Root::Parameter)
        return true; // the caller decides
    if (argument.isElement)
        return true;
    const auto *base = dyn_cast_or_null<Instruction>(argument.base);
    if (argument.root != Root::Own || !base || base->getFunction() != &function)
        return false;
    if (loop)
        return loop->contains(base) && !isa<AllocaInst>(base);
    return creators.size() < 2;
}

unsigned Body::numberOf(const Creation &creation)
{
    auto isSame = [&](const Creation &other) {
        return other.entry == creation.entry && other.parameter == creation.parameter &&
               other.argument == creation.argument && other.id == creation.id &&
               other.step->at == creation.step->at;
    };
    auto found = find_if(summary.creations, isSame);
    if (found == summary.creations.end() && summary.creations.size() < MaxCreations) {
        summary.creations.push_back(creation);
        found = std::prev(summary.creations.end());
    } else if (found == summary.creations.end()) {
        found = std::prev(summary.creations.end());
        found->isRepeated = true;
    }
    found->isOwn &= creation.isOwn;
    found->isRepeated |= creation.isRepeated;
    return found - summary.creations.begin();
}

void Body::create(CallBase &call, unsigned argument)
{
    const Value *routine = call.getArgOperand(argument)->stripPointerCasts();
    Creation creation;
    creation.entry = dyn_cast<Function>(routine);
    creation.parameter = dyn_cast<Argument>(routine);
    creation.argument = of(*call.getArgOperand(argument + 1));
    creation.id = of(*call.getArgOperand(0));
    creation.isOwn = isOwnArgument(call, creation.argument);
    for (const auto &[value, number] : owned)
        if (isa<CallBase>(value) && isOwnArgument(call, Place::at(Root::Own, value)))
            creation.allocated.push_back(value);
    creation.step = summaries.step(&call, nullptr);
    publish(*call.getArgOperand(argument + 1));
    if (!creation.entry && !creation.parameter)
        return;
    const unsigned number = numberOf(creation);
    Creation &kept = summary.creations[number];
    kept.isRepeated |= state.created >> number & 1;
    kept.created |= state.created;
    state.created |= uint64_t(1) << number;
}

uint64_t Body::createdAt(const Place &place) const
{
    uint64_t found = 0;
    for (size_t i = 0; place.depth == 1 && i < summary.creations.size(); i++)
        if (summary.creations[i].id == place)
            found |= uint64_t(1) << i;
    return found;
}

// The threads whose numbers are at this place have ended.
void Body::joinAt(const Place &place)
{
    if (!place.isKnown() || place.depth != 1)
        return;
    state.created &= ~createdAt(place);
    if (isRecording && (place.root == Root::Parameter || place.root == Root::Global))
        summary.joins.push_back(place);
}

void Body::join(const CallBase &call)
{
    if (const auto *load = dyn_cast<LoadInst>(call.getArgOperand(0)))
        joinAt(of(*load->getPointerOperand()));
}

// ---- Calls ----

Place Body::translatePlace(const Place &place, const Translation &translation) const
{
    if (place.root != Root::Parameter)
        return place;
    const unsigned i = cast<Argument>(place.base)->getArgNo();
    return i < translation.arguments.size() ? place.from(translation.arguments[i]) : Place();
}

unsigned Body::translateLock(unsigned lock, Translation &translation)
{
    auto [found, isNew] = translation.locks.try_emplace(lock, lock);
    if (!isNew)
        return found->second;
    Lock translated = summaries.lock(lock);
    translated.place = translatePlace(translated.place, translation);
    if (translated.member.type.empty())
        translated.member = summaries.types().memberAt(translated.place);
    const unsigned number = summaries.numberOf(translated);
    translation.locks[lock] = number;
    return number;
}

LockSet Body::translateLocks(const LockSet &set, Translation &translation)
{
    LockSet translated;
    for (unsigned lock : set)
        translated = unite(translated, LockSet{translateLock(lock, translation)});
    return translated;
}

uint64_t Body::translateCreated(uint64_t created, const Translation &translation) const
{
    uint64_t translated = 0;
    for (size_t i = 0; i < translation.creations.size(); i++)
        if (created >> i & 1)
            translated |= uint64_t(1) << translation.creations[i];
    return translated;
}

Translation Body::translate(const CallBase &call, const Function &callee)
{
    Translation translation;
    for (unsigned i = 0; i < callee.arg_size() && i < call.arg_size(); i++) {
        const Value *argument = call.getArgOperand(i);
        translation.arguments.push_back(argument->getType()->isPointerTy() ? of(*argument)
                                                                           : Place());
    }
    return translation;
}

void Body::add(const CallBase &call, const Event &event, Translation &translation)
{
    Event added = event;
    added.place = translatePlace(event.place, translation);
    added.target = translatePlace(event.target, translation);
    if (event.kind == EventKind::Link) {
        if (added.place.isKnown() && added.target.isKnown())
            record(std::move(added));
        return;
    }
    const bool wasParameter = event.place.root == Root::Parameter;
    if (event.kind != EventKind::Enter) {
        if (!added.place.isKnown() || isSetUp(call, added.place))
            return;
        if (wasParameter && !event.isPublished && isPrivate(added.place))
            return;
    }
    auto found = owned.find(added.place.base);
    added.isPublished |= found != owned.end() && state.published.test(found->second);
    if (added.member.type.empty())
        added.member = summaries.types().memberAt(added.place);
    added.held = unite(state.held, translateLocks(event.held, translation));
    if (event.kind == EventKind::Enter)
        added.lock = translateLock(event.lock, translation);
    added.created = state.created | translateCreated(event.created, translation);
    added.step = summaries.step(&call, event.step);
    record(std::move(added));
}

void Body::addCreations(const CallBase &call, const Summary &callee, Translation &translation)
{
    const uint64_t before = state.created;
    for (const Creation &creation : callee.creations) {
        Creation added = creation;
        const Value *routine = nullptr;
        if (creation.parameter && creation.parameter->getArgNo() < call.arg_size())
            routine = call.getArgOperand(creation.parameter->getArgNo())->stripPointerCasts();
        if (routine) {
            added.entry = dyn_cast<Function>(routine);
            added.parameter = dyn_cast<Argument>(routine);
        }
        added.argument = translatePlace(creation.argument, translation);
        added.id = translatePlace(creation.id, translation);
        if (creation.argument.root == Root::Parameter)
            added.isOwn = isOwnArgument(call, added.argument);
        added.step = summaries.step(&call, creation.step);
        const unsigned number = numberOf(added);
        translation.creations.push_back(number);
        Creation &kept = summary.creations[number];
        kept.isRepeated |= before >> number & 1;
        kept.created |= before;
    }
    for (size_t i = 0; i < translation.creations.size(); i++) {
        const unsigned number = translation.creations[i];
        summary.creations[number].created |=
            translateCreated(callee.creations[i].created, translation);
        if (!callee.creations[i].isJoined)
            state.created |= uint64_t(1) << number;
    }
}

void Body::enter(const CallBase &call, const Summary &callee, const Translation &known)
{
    Translation translation = known;
    const uint64_t created = state.created;
    addCreations(call, callee, translation);
    const uint64_t afterwards = state.created;
    state.created = created;
    if (isRecording)
        for (const Event &event : callee.events)
            add(call, event, translation);
    state.created = afterwards;
    for (const Place &place : callee.joins)
        joinAt(translatePlace(place, translation));
    for (unsigned lock : translateLocks(callee.released, translation))
        erase(state.held, lock);
    state.held = unite(state.held, translateLocks(callee.acquired, translation));
    for (unsigned i = 0; i < callee.escapes.size() && i < call.arg_size(); i++)
        if (callee.escapes[i])
            publish(*call.getArgOperand(i));
    auto found = owned.find(&call);
    if (found != owned.end() && callee.isFreshPublished)
        state.published.set(found->second);
}

void Body::call(CallBase &call)
{
    const Function *callee = call.getCalledFunction();
    if (callee && callee->isDeclaration()) {
        library(call, effectOf(callee->getName()));
        return;
    }
    // A call through a pointer makes one of several; what they acquire is left aside.
    const SmallVector<const Function *, 8> callees(summaries.calleesOf(call));
    for (const Function *one : callees) {
        const Summary &known = summaries.of(*one);
        const LockSet held = state.held;
        if (known.isKnown)
            enter(call, known, translate(call, *one));
        if (callees.size() > 1)
            state.held = held;
    }
}

} // namespace cc
