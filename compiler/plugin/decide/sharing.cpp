#include "compiler/plugin/decide/sharing.h"
#include "compiler/plugin/convert/threads.h"
#include "compiler/plugin/read/source_names.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/Transforms/Utils/Cloning.h>

using namespace llvm;

namespace cc
{

namespace
{

// Of the accesses to one place, these many are compared with each other.
constexpr size_t MaxAccesses = 300;

// An event in a thread, with its places as the whole program has them.
struct Access {
    const Event *event;
    unsigned thread;
    Place place;
    Member member;
    bool isOwn; // reached through the thread's argument, which other threads of it do not have
    SmallVector<Lock, 2> locks;
};

using Key = std::pair<Member, Place>;

bool isSame(const Lock &one, const Lock &other)
{
    if (one.place.isVariable() && other.place.isVariable())
        return one.place == other.place;
    if (one.place.isKnown() && one.place == other.place)
        return true;
    if (!one.member.type.empty() && !other.member.type.empty())
        return one.member == other.member;
    if (!one.place.isKnown() || !other.place.isKnown())
        return true;
    return !one.place.isVariable() && !other.place.isVariable() &&
           one.place.lastOffset() == other.place.lastOffset();
}

bool exclude(ArrayRef<Lock> locks, ArrayRef<Lock> others)
{
    return any_of(locks, [&](const Lock &one) {
        return any_of(others, [&](const Lock &other) {
            return isSame(one, other) && !(one.isShared && other.isShared);
        });
    });
}

class Finder
{
  public:
    Finder(const Summaries &summaries, const Function &main)
        : summaries(summaries), threads(summaries, main)
    {
    }
    Sharing find();

  private:
    void collect();
    void add(const Event &event, unsigned thread);
    Lock resolveLock(const Lock &lock, unsigned thread) const;
    Key keyOf(const Place &place, const Member &member) const;
    std::pair<std::string, std::string> nameOf(const Key &key) const;
    std::string nameOf(const Lock &lock) const;

    bool areTogether(const Access &one, const Access &other) const;
    bool isRace(const Access &one, const Access &other) const;
    void findRace(const Key &key, ArrayRef<Access> accesses);
    Reach reach(const Access &access) const;
    bool isSeveral(unsigned thread) const;
    std::string threadOf(const Access &access) const;

    void describeLock(const Key &key);
    void addSections(LockUse &use, ArrayRef<Access> entered) const;
    bool mayBeTogether(ArrayRef<Access> some, ArrayRef<Access> others) const;
    bool areWithin(ArrayRef<Access> accesses, const Key &outer) const;
    void findInversions();
    void addInversion(const Access &one, const Access &other, const Lock &outer);

    const Summaries &summaries;
    StartedThreads threads;
    std::map<Key, std::vector<Access>> reached, entered;
    // By the variable or type, and where both threads start.
    std::map<std::array<const void *, 3>, size_t> races;
    Sharing found;
};

// ---- Collecting ----

Lock Finder::resolveLock(const Lock &lock, unsigned thread) const
{
    Lock resolved = lock;
    resolved.place = threads.resolve(lock.place, thread);
    if (resolved.member.type.empty())
        resolved.member = summaries.types().memberAt(resolved.place);
    return resolved;
}

// A variable is itself; what is reached through pointers is the same if it is the same member of a
// structure of the same type.
Key Finder::keyOf(const Place &place, const Member &member) const
{
    return place.isVariable() || member.type.empty() ? Key(Member(), place) : Key(member, Place());
}

void Finder::add(const Event &event, unsigned thread)
{
    Access access;
    access.event = &event;
    access.thread = thread;
    access.place = threads.resolve(event.place, thread);
    access.member = event.member;
    const bool isEntry = event.kind == EventKind::Enter;
    if (!access.place.isKnown() && (!isEntry || event.member.type.empty()))
        return;
    if (access.member.type.empty())
        access.member = summaries.types().memberAt(access.place);
    const bool isOfArgument = event.place.root == Root::Parameter && threads.all()[thread].isOwn;
    if (isOfArgument && threads.isKeptBy(thread, event.place))
        return;
    access.isOwn =
        event.place.root == Root::Own || (isOfArgument && threads.isArgument(thread, access.place));
    for (unsigned lock : event.held)
        access.locks.push_back(resolveLock(summaries.lock(lock), thread));
    auto &all = (isEntry ? entered : reached)[keyOf(access.place, access.member)];
    if (all.size() < MaxAccesses)
        all.push_back(std::move(access));
    else
        found.isCut = true;
}

void Finder::collect()
{
    for (unsigned i = 0; i < threads.all().size(); i++)
        for (const Event &event : summaries.of(*threads.all()[i].entry).events)
            if (event.kind != EventKind::Link)
                add(event, i);
}

// ---- Names ----

std::pair<std::string, std::string> Finder::nameOf(const Key &key) const
{
    if (key.first.type.empty())
        return summaries.types().nameOf(key.second);
    return {summaries.types().nameOf(key.first), ""};
}

std::string Finder::nameOf(const Lock &lock) const
{
    if (!lock.place.isKnown() && lock.member.type.empty())
        return "a lock";
    return nameOf(keyOf(lock.place, lock.member)).first;
}

std::string nameOfFunction(const Function &function)
{
    const DISubprogram *program = function.getSubprogram();
    return (program ? program->getName() : function.getName()).str();
}

// Functions of headers of the system are inlined, too.
bool isOfSystem(const DILocation &location)
{
    return location.getFilename().starts_with("/usr/");
}

std::string placeInProgram(const Instruction &instruction)
{
    const DILocation *at = instruction.getDebugLoc();
    while (at && at->getInlinedAt() && (isOfSystem(*at) || !at->getLine()))
        at = at->getInlinedAt();
    return placeOf(at);
}

// The function of an instruction, and those that were inlined around it.
void addFunctions(const Instruction &instruction, std::vector<std::string> &names)
{
    std::vector<std::string> inner;
    for (const DILocation *at = instruction.getDebugLoc(); at && at->getInlinedAt();
         at = at->getInlinedAt())
        if (!isOfSystem(*at))
            inner.push_back(at->getSubprogramLinkageName().str());
    names.push_back(nameOfFunction(*instruction.getFunction()));
    names.insert(names.end(), inner.rbegin(), inner.rend());
}

std::string Finder::threadOf(const Access &access) const
{
    return nameOfFunction(*threads.all()[access.thread].entry);
}

const Instruction &innermost(const Event &event)
{
    const Step *step = event.step;
    while (step->inner)
        step = step->inner;
    return *step->at;
}

bool Finder::isSeveral(unsigned thread) const
{
    const Function *entry = threads.all()[thread].entry;
    return threads.all()[thread].isRepeated ||
           count_if(threads.all(),
                    [&](const StartedThread &other) { return other.entry == entry; }) > 1;
}

Reach Finder::reach(const Access &access) const
{
    Reach reach;
    reach.thread = threadOf(access);
    reach.isRepeated = isSeveral(access.thread);
    reach.isWrite = access.event->kind == EventKind::Write;
    reach.place = placeInProgram(innermost(*access.event));
    std::vector<std::string> names;
    for (const Step *step = access.event->step; step; step = step->inner)
        addFunctions(*step->at, names);
    reach.chain = join(names, " -> ");
    for (const Lock &lock : access.locks)
        if (std::string name = nameOf(lock); !is_contained(reach.locks, name))
            reach.locks.push_back(name);
    return reach;
}

// ---- Races ----

bool Finder::areTogether(const Access &one, const Access &other) const
{
    return threads.mayBeTogether(one.thread, *one.event, other.thread, *other.event) &&
           !exclude(one.locks, other.locks);
}

bool Finder::isRace(const Access &one, const Access &other) const
{
    if (one.event->kind != EventKind::Write && other.event->kind != EventKind::Write)
        return false;
    const bool isOneEntry = threads.all()[one.thread].entry == threads.all()[other.thread].entry;
    if (isOneEntry && (one.place.isOwnElement || other.place.isOwnElement))
        return false;
    if (one.thread == other.thread && one.isOwn && other.isOwn)
        return false;
    const bool isOtherPart = one.place.base == other.place.base && one.place.isKnown() &&
                             one.place.depth == 1 && other.place.depth == 1 &&
                             one.place.offsets != other.place.offsets;
    if (isOtherPart && !one.place.isElement && !other.place.isElement)
        return false;
    if (one.place.depth == 1 && other.place.depth == 1 && one.place.base != other.place.base)
        return false;
    return areTogether(one, other);
}

void Finder::findRace(const Key &key, ArrayRef<Access> accesses)
{
    const Access *first = nullptr, *second = nullptr;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < accesses.size(); i++)
        for (size_t j = i; j < accesses.size(); j++) {
            const Access &one = accesses[i], &other = accesses[j];
            const size_t price =
                2 * (one.locks.size() + other.locks.size()) + (one.thread == other.thread);
            if (price >= best || !isRace(one, other))
                continue;
            best = price;
            first = one.event->kind == EventKind::Write ? &one : &other;
            second = first == &one ? &other : &one;
        }
    if (!first)
        return;
    auto [name, place] = nameOf(key);
    const void *whole =
        key.second.isKnown() ? Types::sourceOf(*key.second.base) : key.first.type.data();
    const void *entry = threads.all()[first->thread].entry,
               *other = threads.all()[second->thread].entry;
    auto [number, isNew] = races.try_emplace(
        {whole, std::min(entry, other), std::max(entry, other)}, found.races.size());
    if (isNew) {
        found.races.push_back({name,
                               place,
                               first->event->isVolatile && second->event->isVolatile,
                               {},
                               reach(*first),
                               reach(*second)});
        return;
    }
    Race &known = found.races[number->second];
    if (known.name != name && !is_contained(known.others, name))
        known.others.push_back(name);
}

// ---- Critical sections ----

void Finder::addSections(LockUse &use, ArrayRef<Access> all) const
{
    std::map<const Instruction *, size_t> numbers;
    std::set<std::pair<unsigned, bool>> owners;
    for (const Access &access : all) {
        const Instruction &at = innermost(*access.event);
        const bool isRepeated = isSeveral(access.thread);
        auto [number, isNew] = numbers.try_emplace(&at, use.sections.size());
        if (isNew) {
            std::vector<std::string> names;
            addFunctions(at, names);
            use.sections.push_back({names.back(),
                                    placeOf(at.getDebugLoc()),
                                    summaries.lock(access.event->lock).isShared,
                                    {}});
        }
        LockedSection &section = use.sections[number->second];
        const std::string thread = threadOf(access);
        if (!is_contained(section.threads, thread))
            section.threads.push_back(thread);
        owners.insert({access.thread, isRepeated});
    }
    use.isOfOneThread = owners.size() == 1 && !owners.begin()->second;
}

bool Finder::mayBeTogether(ArrayRef<Access> some, ArrayRef<Access> others) const
{
    return any_of(some, [&](const Access &one) {
        return any_of(others, [&](const Access &other) { return areTogether(one, other); });
    });
}

bool Finder::areWithin(ArrayRef<Access> accesses, const Key &outer) const
{
    const auto isOuter = [&](const Lock &lock) { return keyOf(lock.place, lock.member) == outer; };
    return all_of(accesses, [&](const Access &access) { return any_of(access.locks, isOuter); });
}

void Finder::describeLock(const Key &key)
{
    const std::vector<Access> &all = entered[key];
    LockUse use;
    std::tie(use.name, use.place) = nameOf(key);
    addSections(use, all);
    for (const auto &[other, accesses] : entered) {
        const std::string name = nameOf(other).first;
        if (other == key || name == use.name)
            continue;
        if (mayBeTogether(all, accesses) && !is_contained(use.together, name))
            use.together.push_back(name);
        if (areWithin(all, other) && !is_contained(use.within, name))
            use.within.push_back(name);
    }
    found.locks.push_back(std::move(use));
}

// One section is entered while `outer` is held; is the other, of `outer`, entered while the lock of
// the first is held?
void Finder::addInversion(const Access &one, const Access &other, const Lock &outer)
{
    const Lock inner = resolveLock(summaries.lock(one.event->lock), one.thread);
    SmallVector<Lock, 2> held, otherHeld;
    auto isOfPair = [&](const Lock &lock) { return isSame(lock, inner) || isSame(lock, outer); };
    copy_if(one.locks, std::back_inserter(held), [&](const Lock &lock) { return !isOfPair(lock); });
    copy_if(other.locks, std::back_inserter(otherHeld),
            [&](const Lock &lock) { return !isOfPair(lock); });
    const bool isHeld = any_of(other.locks, [&](const Lock &lock) { return isSame(lock, inner); });
    if (!isHeld || isSame(inner, outer) || exclude(held, otherHeld) ||
        !threads.mayBeTogether(one.thread, *one.event, other.thread, *other.event))
        return;
    const std::string first = nameOf(inner), second = nameOf(outer);
    const bool isKnown = any_of(found.inversions, [&](const Inversion &known) {
        return (known.first == first && known.second == second) ||
               (known.first == second && known.second == first);
    });
    if (!isKnown && first != second)
        found.inversions.push_back({first, second, reach(one), reach(other)});
    else
        return;
    erase(found.inversions.back().firstInside.locks, first);
    erase(found.inversions.back().secondInside.locks, second);
}

void Finder::findInversions()
{
    for (const auto &[key, all] : entered)
        for (const Access &one : all)
            for (const Lock &outer : one.locks) {
                auto others = entered.find(keyOf(outer.place, outer.member));
                if (others == entered.end() || others->first == key)
                    continue;
                for (const Access &other : others->second)
                    addInversion(one, other, outer);
            }
}

Sharing Finder::find()
{
    collect();
    for (const auto &[key, accesses] : reached)
        findRace(key, accesses);
    for (const auto &[key, accesses] : entered)
        describeLock(key);
    findInversions();
    found.isCut |= summaries.isCut();
    llvm::sort(found.races, [](const Race &one, const Race &other) {
        return std::tie(one.place, one.name) < std::tie(other.place, other.name);
    });
    llvm::sort(found.locks, [](const LockUse &one, const LockUse &other) {
        return std::tie(one.place, one.name) < std::tie(other.place, other.name);
    });
    return std::move(found);
}

} // namespace

Sharing findSharing(const Module &module)
{
    const std::unique_ptr<Module> copy = CloneModule(module);
    const Function *main = copy->getFunction("main");
    if (!main || main->isDeclaration())
        return Sharing();
    Summaries summaries(*copy);
    summaries.analyse();
    return Finder(summaries, *main).find();
}

} // namespace cc
