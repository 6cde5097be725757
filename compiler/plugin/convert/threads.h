// The threads of a program and which of them may run together, for the analysis of shared data.
#ifndef GS_COMPILER_THREADS_H
#define GS_COMPILER_THREADS_H

#include "compiler/plugin/decide/summaries.h"

namespace cc
{

// The threads that start at a function with an argument; the first one is that of main.
struct StartedThread {
    const llvm::Function *entry;
    Place argument;
    bool isOwn = false;      // each of them has another object as argument
    bool isRepeated = false; // several may run at the same time
    llvm::SmallPtrSet<const llvm::Value *, 4> allocated; // for each of them
    // Where they are created: the thread that does, and the number of the creation there.
    std::vector<std::pair<unsigned, unsigned>> origins;
    std::set<unsigned> descendants;
};

class StartedThreads
{
  public:
    StartedThreads(const Summaries &summaries, const llvm::Function &main);

    llvm::ArrayRef<StartedThread> all() const
    {
        return threads;
    }
    // Whether the events of two threads may happen at the same time.
    bool mayBeTogether(unsigned one, const Event &event, unsigned other,
                       const Event &otherEvent) const;
    // A place as seen by the thread, not by its start routine.
    Place resolve(const Place &place, unsigned thread) const
    {
        bool isKept;
        return resolve(place, thread, isKept);
    }
    // Whether the thread allocated the memory, and stored it in the object that is its argument.
    bool isKeptBy(unsigned thread, const Place &place) const
    {
        bool isKept;
        return resolve(place, thread, isKept).root == Root::Own && isKept;
    }
    // Whether the place is in the argument of the thread, or in what was allocated with it.
    bool isArgument(unsigned thread, const Place &place) const
    {
        return place.base == threads[thread].argument.base ||
               threads[thread].allocated.count(place.base);
    }

  private:
    // What was stored somewhere, and by which thread.
    struct Link {
        Place target;
        unsigned thread;
    };
    Place resolve(const Place &place, unsigned thread, bool &ret_isKept) const;
    void addChildren(unsigned parent);
    unsigned find(const Creation &creation, unsigned parent, unsigned number);
    bool isOverlapping(unsigned parent, unsigned one, unsigned other) const;
    bool isRunning(unsigned thread, unsigned creator, uint64_t created) const;
    bool areSiblingsTogether(const StartedThread &one, const StartedThread &other) const;
    void findDescendants();
    void collectLinks();

    const Summaries &summaries;
    std::vector<StartedThread> threads;
    std::map<std::pair<unsigned, unsigned>, unsigned> children;
    std::map<Place, llvm::SmallVector<Link, 1>> links;
};

} // namespace cc

#endif
