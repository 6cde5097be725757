// What debug records say of variables on all ways to a block of code: for the function that
// resumes, which comes there without having met the records.
#ifndef GS_COMPILER_KNOWN_VARIABLES_H
#define GS_COMPILER_KNOWN_VARIABLES_H

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/DebugProgramInstruction.h>
#include <llvm/IR/Function.h>

#include <optional>
#include <vector>

namespace cc
{

class KnownVariables
{
  public:
    explicit KnownVariables(llvm::Function &function);

    // The last records before the block, of variables in values.
    llvm::SmallVector<const llvm::DbgVariableRecord *, 8> before(const llvm::BasicBlock &block);

  private:
    using State = std::vector<const llvm::DbgVariableRecord *>; // by variable; nullptr: unknown

    void number(llvm::Function &function);
    void pass(State &at, llvm::DbgVariableRecord &record) const;
    State stateBefore(const llvm::BasicBlock &block);

    llvm::DenseMap<llvm::DebugVariable, unsigned> numbers;
    std::vector<llvm::DebugVariable> variables;
    llvm::DenseMap<const llvm::BasicBlock *, State> behind;
    llvm::DenseMap<const llvm::BasicBlock *, State> known;
};

// Tell debuggers at the end of a block that restores values what is known where it leads to. Values
// are looked up by `restored`, which returns nullptr for others.
void describeKnown(llvm::ArrayRef<const llvm::DbgVariableRecord *> records, llvm::BasicBlock &code,
                   llvm::function_ref<llvm::Value *(llvm::Value *)> restored);

// Tell them at the beginning of a block which variables are constants there.
void describeConstants(llvm::ArrayRef<const llvm::DbgVariableRecord *> records,
                       llvm::BasicBlock &code);

// Tell them what is known of a value at the beginning of a block where it has been joined.
void describeJoined(llvm::ArrayRef<const llvm::DbgVariableRecord *> records, llvm::BasicBlock &code,
                    const llvm::Value &value, llvm::Value &joined);

} // namespace cc

#endif
