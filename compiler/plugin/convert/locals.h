// The local variables in memory of a function that is converted. One whose address is known only to
// its function has a new address whenever the function resumes; what it holds is copied if it is
// needed then. The others, and large ones, are in an environment: a block of the heap that lives as
// long as the call.
#ifndef GS_COMPILER_LOCALS_H
#define GS_COMPILER_LOCALS_H

#include "compiler/plugin/decide/calls.h"

#include <llvm/ADT/BitVector.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Instructions.h>
#include <map>
#include <string>
#include <vector>

namespace cc
{

// Where a function continues: the first instruction of each of these blocks.
using ResumeBlocks = llvm::ArrayRef<llvm::BasicBlock *>;

// A variable of the environment.
struct Object {
    std::string name, place;
    uint64_t size;
    bool isKnownOutside;                   // its address is, so that it must not move
    const llvm::DILocalVariable *variable; // nullptr: none of the source
    const llvm::Instruction *block;        // where it is, at this offset
    uint64_t offset;
    llvm::AllocaInst *slot; // which has the address of the block, for debuggers; or nullptr
};

class Locals
{
  public:
    Locals(llvm::Function &function, const Calls &calls) : function(function), calls(calls)
    {
    }

    // Make copies of the parameters that are passed as memory, which the caller owns.
    void copyParameters();

    // Put variables into the environment. After this, addresses are computed where they are used.
    void place(ResumeBlocks blocks);

    // The variables outside of the environment whose contents are needed where the block resumes.
    llvm::SmallVector<llvm::AllocaInst *, 4> liveAt(llvm::BasicBlock *block) const;

    uint64_t environmentSize() const
    {
        return size;
    }
    const std::vector<Object> &objects() const
    {
        return moved;
    }

  private:
    enum class Access { None, Reads, Overwrites, Escapes };
    Access accessOf(const llvm::Use &use, const llvm::AllocaInst &variable) const;
    Access callAccess(const llvm::CallBase &call, const llvm::Use &use) const;
    bool escapes(const llvm::Value &pointer, const llvm::AllocaInst &variable) const;
    void collect();
    void noteAccesses(const llvm::Value &pointer, unsigned index);
    bool updateLive(llvm::BasicBlock &block);
    void findLive();
    void moveToEnvironment(llvm::ArrayRef<llvm::AllocaInst *> moved);
    uint64_t sizeOf(const llvm::AllocaInst &variable) const;

    llvm::Function &function;
    const Calls &calls;
    uint64_t size = 0;
    std::vector<Object> moved;
    llvm::SmallVector<llvm::AllocaInst *, 8> variables; // outside of the environment
    std::map<const llvm::Instruction *, llvm::SmallVector<std::pair<unsigned, Access>, 1>> accesses;
    std::map<const llvm::BasicBlock *, llvm::BitVector> live; // at the start of the block
};

} // namespace cc

#endif
