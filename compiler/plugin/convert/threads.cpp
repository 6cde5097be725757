#include "compiler/plugin/convert/threads.h"

using namespace llvm;

namespace cc
{

StartedThreads::StartedThreads(const Summaries &summaries, const Function &main)
    : summaries(summaries)
{
    threads.push_back({});
    threads.front().entry = &main;
    for (unsigned i = 0; i < threads.size(); i++)
        addChildren(i);
    findDescendants();
    collectLinks();
}

bool StartedThreads::isOverlapping(unsigned parent, unsigned one, unsigned other) const
{
    const auto &creations = summaries.of(*threads[parent].entry).creations;
    return creations[one].created >> other & 1 || creations[other].created >> one & 1;
}

unsigned StartedThreads::find(const Creation &creation, unsigned parent, unsigned number)
{
    const Place argument = resolve(creation.argument, parent);
    for (unsigned i = 0; i < threads.size(); i++) {
        StartedThread &thread = threads[i];
        if (thread.entry != creation.entry || !(thread.argument == argument))
            continue;
        for (const auto &[creator, at] : thread.origins)
            thread.isRepeated |= creator != parent || isOverlapping(parent, at, number);
        return i;
    }
    StartedThread added;
    added.entry = creation.entry;
    added.argument = argument;
    added.isOwn = creation.isOwn;
    threads.push_back(std::move(added));
    return threads.size() - 1;
}

void StartedThreads::addChildren(unsigned parent)
{
    const auto &creations = summaries.of(*threads[parent].entry).creations;
    for (unsigned number = 0; number < creations.size(); number++) {
        const Creation &creation = creations[number];
        if (!creation.entry || creation.entry->isDeclaration())
            continue;
        const unsigned child = find(creation, parent, number);
        threads[child].isRepeated |= creation.isRepeated || threads[parent].isRepeated;
        threads[child].isOwn &= creation.isOwn;
        threads[child].allocated.insert(creation.allocated.begin(), creation.allocated.end());
        threads[child].origins.push_back({parent, number});
        children[{parent, number}] = child;
    }
}

void StartedThreads::findDescendants()
{
    for (bool hasChanged = true; hasChanged;) {
        hasChanged = false;
        for (const auto &[origin, child] : children) {
            std::set<unsigned> &known = threads[origin.first].descendants;
            const size_t before = known.size();
            known.insert(child);
            const std::set<unsigned> more = threads[child].descendants;
            known.insert(more.begin(), more.end());
            hasChanged |= known.size() != before;
        }
    }
}

// ---- Places ----

void StartedThreads::collectLinks()
{
    std::map<Place, SmallVector<Link, 1>> found;
    for (unsigned i = 0; i < threads.size(); i++)
        for (const Event &event : summaries.of(*threads[i].entry).events) {
            if (event.kind != EventKind::Link)
                continue;
            const Place from = resolve(event.place, i), to = resolve(event.target, i);
            auto &known = found[from];
            auto isSame = [&](const Link &link) { return link.target == to; };
            if (from.depth == 1 && to.isKnown() && none_of(known, isSame))
                known.push_back({to, i});
        }
    links = std::move(found);
}

Place StartedThreads::resolve(const Place &place, unsigned thread, bool &ret_isKept) const
{
    Place resolved = place;
    ret_isKept = false;
    if (place.root == Root::Parameter) {
        const bool isArgument = cast<Argument>(place.base)->getArgNo() == 0 &&
                                cast<Argument>(place.base)->getParent() == threads[thread].entry;
        resolved = isArgument ? place.from(threads[thread].argument) : Place();
    }
    for (unsigned turns = 0; resolved.depth > 1 && turns < Place::MaxDepth; turns++) {
        auto found = links.find(resolved.prefix(1));
        if (found == links.end() || found->second.size() != 1)
            break;
        Place rest = resolved;
        for (unsigned i = 0; i + 1 < resolved.depth; i++)
            rest.offsets[i] = resolved.offsets[i + 1];
        rest.offsets[--rest.depth] = 0;
        const Place next = rest.from(found->second.front().target);
        if (!next.isKnown())
            break;
        ret_isKept = found->second.front().thread == thread;
        resolved = next;
    }
    return resolved;
}

// ---- What may happen at the same time ----

// Whether the thread is one of those that its creator started before, or one that these started.
bool StartedThreads::isRunning(unsigned thread, unsigned creator, uint64_t created) const
{
    for (const auto &[origin, child] : children)
        if (origin.first == creator && created >> origin.second & 1 &&
            (child == thread || threads[child].descendants.count(thread)))
            return true;
    return false;
}

bool StartedThreads::areSiblingsTogether(const StartedThread &one, const StartedThread &other) const
{
    for (const auto &[parent, number] : one.origins)
        for (const auto &[otherParent, otherNumber] : other.origins)
            if (parent != otherParent || threads[parent].isRepeated ||
                isOverlapping(parent, number, otherNumber))
                return true;
    return false;
}

bool StartedThreads::mayBeTogether(unsigned one, const Event &event, unsigned other,
                                   const Event &otherEvent) const
{
    if (one == other)
        return threads[one].isRepeated;
    const bool isAncestor = threads[one].descendants.count(other),
               isDescendant = threads[other].descendants.count(one);
    if (isAncestor && !threads[one].isRepeated)
        return isRunning(other, one, event.created);
    if (isDescendant && !threads[other].isRepeated)
        return isRunning(one, other, otherEvent.created);
    return isAncestor || isDescendant || areSiblingsTogether(threads[one], threads[other]);
}

} // namespace cc
