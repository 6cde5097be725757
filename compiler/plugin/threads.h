// The threads of a program and which of them may run together, for the analysis of shared data.
#ifndef GS_COMPILER_THREADS_H
#define GS_COMPILER_THREADS_H

#include "compiler/plugin/summaries.h"

namespace cc
{

// The threads that start at a function with an argument; the first one is that of main.
struct StartedThread {
    const llvm::Function *entry;
    Place argument;
    bool isOwn = false;      // each of them has another object as argument
    bool isRepeated = false; // several may run at the same time
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
    Place resolve(const Place &place, unsigned thread) const;

  private:
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
    std::map<Place, llvm::SmallVector<Place, 1>> links; // pointers by what was stored there
};

} // namespace cc

#endif
