// The variables of the source that a record holds: for debuggers.
//
// In a program with debug information, a site has a line for each of them, of fields that tabs
// separate: the name, the type in C, the offset in the record, and, if this is where the address of
// a block is, the offset in the block.
#ifndef GS_COMPILER_FRAME_LOCALS_H
#define GS_COMPILER_FRAME_LOCALS_H

#include "compiler/plugin/convert/locals.h"
#include "compiler/plugin/convert/record.h"

#include <llvm/Transforms/Utils/ValueMapper.h>

namespace cc
{

// A variable that is a value which is restored, or in the block to which that points.
struct RestoredLocal {
    llvm::Value *value;
    llvm::DILocalVariable *variable;
    llvm::DILocation *location;
    bool isInBlock;
    uint64_t offset;
    llvm::AllocaInst *slot; // of the block
};

class FrameLocals
{
  public:
    FrameLocals(const llvm::CallBase &call, llvm::ArrayRef<llvm::Value *> values,
                llvm::ArrayRef<llvm::AllocaInst *> contents, llvm::ArrayRef<Object> objects);

    std::string textFor(const RecordLayout &layout) const;
    const llvm::SmallVector<RestoredLocal, 4> &restored() const
    {
        return locals;
    }

  private:
    llvm::ArrayRef<llvm::Value *> values;
    llvm::ArrayRef<llvm::AllocaInst *> contents;
    llvm::SmallVector<RestoredLocal, 4> locals;
};

// Without optimisation, debuggers find the block by a variable of the frame: the code generator
// describes a value wrongly that it has put there. Returns nullptr if it is not needed.
llvm::AllocaInst *addSlot(llvm::Instruction &block);

// Tell debuggers that the variable is in the block from here on. Returns it; nullptr: it is none of
// the source.
llvm::DILocalVariable *describeInBlock(llvm::AllocaInst &variable, llvm::Instruction &block,
                                       llvm::AllocaInst *slot, uint64_t offset);

// Tell debuggers that the variable has been restored at the end of the block of code. map: from the
// function to the one that resumes, which has variables of its own.
void describe(const RestoredLocal &local, llvm::Value &restored, llvm::BasicBlock &code,
              llvm::ValueToValueMapTy &map);

// Move what debuggers are told of variables in memory to the end of a block of code that is always
// executed. A parameter that is not restored has no value any more.
void moveDeclarations(llvm::BasicBlock &from, llvm::BasicBlock &to,
                      llvm::function_ref<bool(const llvm::Value *)> isRestored);

} // namespace cc

#endif
