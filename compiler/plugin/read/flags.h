// What a loop asks again and again, and does not change itself.
#ifndef GS_COMPILER_FLAGS_H
#define GS_COMPILER_FLAGS_H

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Instructions.h>

namespace cc
{

// A loop looks at what others do at most this many calls deep.
constexpr unsigned MaxLookDepth = 3;

// A value is followed at most this many instructions back.
constexpr unsigned MaxValueDepth = 10;

// The function that is called, if it is known.
const llvm::Function *calleeOf(const llvm::Instruction &instruction);

// Whether a call of the function writes nothing but its own variables, so that a loop may ask it
// again and again what another thread has done.
bool onlyLooks(const llvm::Function &function, unsigned depth);

// Whether its result depends on nothing but its operands.
bool isPure(const llvm::Instruction &instruction);

class Flags
{
  public:
    explicit Flags(const llvm::Loop &loop);

    // Whether the value is computed from memory that the loop does not write, and from nothing
    // else that changes in it.
    bool are(const llvm::Value &value);

  private:
    enum class Kind { Same, Read, Changing };
    Kind kindOf(const llvm::Value &value, unsigned depth);
    Kind kindOfAll(llvm::iterator_range<llvm::User::const_value_op_iterator> values,
                   unsigned depth);
    Kind kindOfMemory(const llvm::Value &pointer, unsigned depth);
    Kind examine(const llvm::Instruction &instruction, unsigned depth);

    const llvm::Loop &loop;
    llvm::DenseMap<const llvm::Value *, llvm::SmallVector<const llvm::StoreInst *, 2>> stores;
    // Each is found once: a variable may be a copy of others in many places.
    llvm::DenseMap<std::pair<const llvm::Instruction *, unsigned>, Kind> kinds;
};

} // namespace cc

#endif
