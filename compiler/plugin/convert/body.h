// The analysis of one function, of which summarise() takes the result: which locks it holds, which
// threads may run, and which of its own memory others may know, at each instruction.
#ifndef GS_COMPILER_BODY_H
#define GS_COMPILER_BODY_H

#include "compiler/plugin/decide/effects.h"
#include "compiler/plugin/decide/summaries.h"

#include <llvm/ADT/BitVector.h>
#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace cc
{

struct FlowState {
    bool isReached = false;
    LockSet held, released;
    uint64_t created = 0;
    llvm::BitVector published; // of the function's parameters and own memory

    bool merge(const FlowState &other);
};

bool isBefore(const Event &one, const Event &other);

// A call as its caller sees it: the callee's places and locks in the caller's terms.
struct Translation {
    llvm::SmallVector<Place, 6> arguments;
    llvm::DenseMap<unsigned, unsigned> locks;
    llvm::SmallVector<unsigned, 4> creations;
};

class Body : public Places
{
  public:
    Body(llvm::Function &function, Summaries &summaries, Summary &summary)
        : Places(*function.getParent()), function(function), summaries(summaries), summary(summary),
          tree(function), loops(tree), order(&function)
    {
    }
    void run();

  protected:
    Place ofResult(const llvm::CallBase &call) override;
    bool isOwn(const llvm::Instruction &instruction) const override
    {
        return owned.count(&instruction);
    }
    Place storedAt(const Place &place) override;

  private:
    void collect();
    void noteJoin(const llvm::CallBase &call);
    void findHandedOver();
    bool isHandedOver(const llvm::LoadInst &load, const LockSet &held);
    void flow(bool isLast);
    void enterBlocks(llvm::BasicBlock &block, const FlowState &state);
    void tryLock(llvm::BasicBlock &block, FlowState &ifTrue, FlowState &ifFalse);
    void execute(llvm::Instruction &instruction);
    void leave(const llvm::ReturnInst &returned);

    void access(const llvm::Instruction &at, const llvm::Value &pointer, EventKind kind);
    void store(const llvm::StoreInst &store);
    void call(llvm::CallBase &call);
    void library(llvm::CallBase &call, const LibraryCall &effect);
    void copy(const llvm::AnyMemIntrinsic &intrinsic);
    void acquire(const llvm::CallBase &call, const llvm::Value &pointer, bool isShared);
    void release(const llvm::Value &pointer);
    void create(llvm::CallBase &call, unsigned argument);
    void join(const llvm::CallBase &call);
    void joinAt(const Place &place);
    uint64_t createdAt(const Place &place) const;
    void finish();

    void enter(const llvm::CallBase &call, const Summary &callee, const Translation &translation);
    Translation translate(const llvm::CallBase &call, const llvm::Function &callee);
    unsigned translateLock(unsigned lock, Translation &translation);
    LockSet translateLocks(const LockSet &set, Translation &translation);
    Place translatePlace(const Place &place, const Translation &translation) const;
    uint64_t translateCreated(uint64_t created, const Translation &translation) const;
    void add(const llvm::CallBase &call, const Event &event, Translation &translation);
    void addCreations(const llvm::CallBase &call, const Summary &callee, Translation &translation);

    void publish(const llvm::Value &pointer);
    bool isPrivate(const Place &place) const;
    bool isSetUp(const llvm::Instruction &at, const Place &place) const;
    bool isOwnArgument(const llvm::Instruction &at, const Place &argument) const;
    unsigned numberOf(const Creation &creation);
    unsigned lockAt(const llvm::Value &pointer, bool isShared);
    void record(Event event);

    llvm::Function &function;
    Summaries &summaries;
    Summary &summary;
    llvm::DominatorTree tree;
    llvm::LoopInfo loops;
    llvm::ReversePostOrderTraversal<llvm::Function *> order;
    std::map<const llvm::BasicBlock *, FlowState> states;
    FlowState state, end;
    bool isRecording = false;
    llvm::DenseMap<const llvm::Value *, unsigned>
        owned; // and parameters: bits of FlowState::published
    std::map<Place, const llvm::Value *>
        stored; // pointers, where only one is; nullptr: several are
    std::vector<const llvm::StoreInst *> stores;
    llvm::SmallVector<const llvm::CallBase *, 4> creators;
    // On these edges, threads whose numbers are there have been joined.
    std::map<std::pair<const llvm::BasicBlock *, const llvm::BasicBlock *>,
             llvm::SmallVector<Place, 2>>
        joinedOn;
    std::set<Event, bool (*)(const Event &, const Event &)> events{isBefore};
};

} // namespace cc

#endif
