// The other way to make a function resumable, for those whose code is long (convert.h has the
// first): it has one body for both, in which values that live across a wait are in slots on the
// stack. A record is a copy of the slots that are live, which the runtime makes by a table.
//
//     int f(int a)
//         if (state.resuming)                    called by f.resume
//             goto place[gs_cc_restore(slots, places)];
//         slots.a = a;
//         b = g(a);
//         if (state.suspending)
//             gs_cc_save(slots, places, 0);
//             return 0;
//     place0:
//         return slots.a + b;
//
// Code is generated once, and a place where the function may wait adds three instructions to it. A
// value is read from its slot only where the function may have been resumed since it was computed.
#ifndef GS_COMPILER_SLOTS_H
#define GS_COMPILER_SLOTS_H

#include "compiler/plugin/convert/record.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SetVector.h>

namespace cc
{

// A place where the function may wait.
struct WaitingPlace {
    llvm::CallBase *call;
    bool isPrimitive;
    llvm::BasicBlock *resume;
    llvm::ArrayRef<llvm::Value *> values;
    llvm::ArrayRef<llvm::AllocaInst *> contents;
    const RecordLayout &layout;
    llvm::GlobalVariable *site;
};

class Slots
{
  public:
    Slots(llvm::Function &function, llvm::Function &resume, llvm::ArrayRef<WaitingPlace> places);

    // Make the function resumable, and the body of `resume`.
    void apply();

  private:
    void layOut();
    void reserve(llvm::Value &value, uint64_t size, uint64_t align);
    llvm::Value *address(llvm::IRBuilder<> &builder, const llvm::Value &value);
    void moveContents();
    void storeWhereDefined(llvm::Value &value);
    void readBehindWaits(llvm::Value &value);
    llvm::GlobalVariable *makeTable();
    llvm::Constant *copiesOf(const WaitingPlace &place, uint64_t &ret_count);
    void addChecks(llvm::Value *table);
    void addEntry(llvm::Value *table);
    llvm::BasicBlock *entryOf(const WaitingPlace &place);
    void makeResume();

    llvm::Function &function, &resume;
    llvm::ArrayRef<WaitingPlace> places;
    llvm::Module &module;
    llvm::LLVMContext &context;
    const llvm::DataLayout &layout;
    State state;
    llvm::MapVector<llvm::Value *, uint64_t> slots; // offsets
    llvm::SetVector<llvm::Value *> values;
    uint64_t size = 0;
    llvm::AllocaInst *frame = nullptr;
    llvm::SmallVector<llvm::Instruction *, 8> addresses; // of variables
};

} // namespace cc

#endif
