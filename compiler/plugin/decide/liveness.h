// Which values of a function are needed at the start of a block.
#ifndef GS_COMPILER_LIVENESS_H
#define GS_COMPILER_LIVENESS_H

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Function.h>

namespace cc
{

class Liveness
{
  public:
    explicit Liveness(llvm::Function &function);
    llvm::ArrayRef<llvm::Value *> liveAt(const llvm::BasicBlock &block) const;

  private:
    void add(llvm::Value &value);

    llvm::DenseMap<const llvm::BasicBlock *, llvm::SmallVector<llvm::Value *, 8>> live;
};

} // namespace cc

#endif
