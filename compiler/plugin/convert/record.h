// The records of suspended calls, and the state that compiled code shares with the runtime
// (compiler/runtime/start/abi.h has the same structures in C).
#ifndef GS_COMPILER_RECORD_H
#define GS_COMPILER_RECORD_H

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

namespace cc
{

// Where values and contents of variables are in a record.
struct RecordLayout {
    RecordLayout() = default;
    RecordLayout(const llvm::DataLayout &layout, llvm::ArrayRef<llvm::Value *> values,
                 llvm::ArrayRef<llvm::AllocaInst *> contents);

    llvm::Align alignOf(const llvm::Value *value) const;
    uint64_t sizeOf(const llvm::AllocaInst &variable) const;

    llvm::SmallVector<uint64_t, 8> values, contents;
    uint64_t size = 0;

  private:
    const llvm::DataLayout *layout = nullptr;
};

class State
{
  public:
    explicit State(llvm::Module &module);

    llvm::Value *loadSuspending(llvm::IRBuilder<> &builder);
    llvm::Value *loadMayLeave(llvm::IRBuilder<> &builder);
    // Count down to the next turn of other threads. Returns whether it is now.
    llvm::Value *countTurn(llvm::IRBuilder<> &builder);
    llvm::Value *loadResuming(llvm::IRBuilder<> &builder);
    void storeResuming(llvm::IRBuilder<> &builder, llvm::Value *record);
    void storeResult(llvm::IRBuilder<> &builder, llvm::Value *value);
    llvm::Value *loadResult(llvm::IRBuilder<> &builder, llvm::Type *type);

    llvm::GlobalVariable *makeSite(llvm::Function &resume, const llvm::CallBase &call,
                                   unsigned index, uint64_t size, const std::string &locals);
    llvm::Value *makeRecord(llvm::IRBuilder<> &builder, llvm::GlobalVariable &site);
    llvm::Value *field(llvm::IRBuilder<> &builder, llvm::Value *record, uint64_t offset);
    llvm::Value *loadIndex(llvm::IRBuilder<> &builder, llvm::Value *record);
    void freeRecord(llvm::IRBuilder<> &builder, llvm::Value *record);

  private:
    llvm::Value *address(llvm::IRBuilder<> &builder, uint64_t offset);

    llvm::Module &module;
    llvm::PointerType *pointer;
    llvm::StructType *siteType;
    llvm::GlobalVariable *state;
};

} // namespace cc

#endif
