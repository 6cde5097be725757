// What each function does to memory that others may reach, and the locks that it holds meanwhile:
// computed from its callees upwards, relative to its parameters and to the locks of its callers.
#ifndef GS_COMPILER_SUMMARIES_H
#define GS_COMPILER_SUMMARIES_H

#include "compiler/plugin/decide/places.h"

#include <deque>
#include <llvm/ADT/SmallVector.h>
#include <set>
#include <vector>

namespace cc
{

struct Lock {
    Place place; // unknown: some lock
    Member member;
    bool isShared = false; // taken for reading only
    bool operator<(const Lock &other) const
    {
        return std::tie(place, member, isShared) <
               std::tie(other.place, other.member, other.isShared);
    }
};

// Sorted numbers of locks.
using LockSet = llvm::SmallVector<unsigned, 2>;

// The calls from a function to an instruction.
struct Step {
    const llvm::Instruction *at;
    const Step *inner; // in the function that `at` calls; nullptr: `at` is it
};

enum class EventKind : uint8_t {
    Read,
    Write,
    Enter, // a critical section
    Link,  // a pointer to `target` is stored
};

struct Event {
    EventKind kind;
    bool isVolatile = false;
    bool isPublished = false; // others may know what its parameter points to
    Place place;
    Member member;
    Place target;
    LockSet held;                          // of a section: its own included
    unsigned lock = 0;                     // of a section
    const llvm::Instruction *at = nullptr; // of a section: where it is entered
    uint64_t created = 0;                  // threads that may run: bits, as in Summary::creations
    const Step *step;
};

struct Creation {
    const llvm::Function *entry = nullptr; // nullptr: what the parameter says
    const llvm::Argument *parameter = nullptr;
    Place argument, id;
    bool isRepeated = false; // while one that was created before may run
    bool isOwn = false;      // each thread has a different argument
    bool isJoined = false;   // when the function returns
    uint64_t created = 0;    // before it
    llvm::SmallVector<const llvm::Value *, 2> allocated; // memory, for each thread
    const Step *step = nullptr;
};

struct Summary {
    std::vector<Event> events;
    std::vector<Creation> creations;
    std::vector<Place> joins;
    LockSet acquired, released;
    llvm::SmallVector<bool, 4> escapes; // for each parameter
    Place result;
    bool isFresh = false, isFreshPublished = false; // the result: memory that it allocated
    bool isKnown = false;
};

class Summaries
{
  public:
    explicit Summaries(llvm::Module &module);
    void analyse();

    const Summary &of(const llvm::Function &function) const;
    // Whether events were left out, because there were too many.
    bool isCut() const
    {
        return wasCut;
    }
    const Lock &lock(unsigned number) const
    {
        return *locks[number];
    }
    const Types &types() const
    {
        return debugTypes;
    }

    // For the analysis of one function.
    unsigned numberOf(const Lock &lock);
    llvm::ArrayRef<const llvm::Function *> calleesOf(const llvm::CallBase &call);
    const Step *step(const llvm::Instruction *at, const Step *inner);
    size_t limit() const
    {
        return maximum;
    }
    void cut()
    {
        wasCut = true;
    }

  private:
    void visit(llvm::Function &function, std::vector<llvm::Function *> &order,
               std::set<const llvm::Function *> &seen);

    llvm::Module &module;
    Types debugTypes;
    std::map<const llvm::Function *, Summary> known;
    std::map<Lock, unsigned> numbers;
    std::vector<const Lock *> locks;
    std::deque<Step> steps;
    std::map<const llvm::FunctionType *, llvm::SmallVector<const llvm::Function *, 4>> targets;
    llvm::DenseMap<const llvm::CallBase *, const llvm::Function *> direct;
    size_t maximum;
    bool wasCut = false;
};

LockSet unite(const LockSet &one, const LockSet &other);
LockSet intersect(const LockSet &one, const LockSet &other);
bool contains(const LockSet &set, unsigned lock);

// Fills the summary of a function.
void summarise(llvm::Function &function, Summaries &summaries, Summary &summary);

} // namespace cc

#endif
