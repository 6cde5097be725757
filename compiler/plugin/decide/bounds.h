// How much memory a thread needs while it waits: the records and environments of the calls that are
// not complete, along the chain of calls for which they are largest.
#ifndef GS_COMPILER_BOUNDS_H
#define GS_COMPILER_BOUNDS_H

#include "compiler/plugin/convert/convert.h"

#include <llvm/ADT/SetVector.h>
#include <map>
#include <set>

namespace cc
{

// The record of a function, and its environment.
struct Frame {
    const llvm::Function *function;
    uint64_t bytes;
};

struct Bound {
    uint64_t bytes = 0;
    std::vector<Frame> chain; // from the function to the call that waits
    // Why there is no bound, or why it is that of a part only; empty: it is one.
    std::set<std::string> gaps;
};

// The gaps of one kind in one sentence: "calls on stacks in f, g".
std::vector<std::string> condense(const std::set<std::string> &gaps);

class Bounds
{
  public:
    explicit Bounds(llvm::ArrayRef<Converted> converted);

    // Of a call of the function.
    const Bound &of(const llvm::Function &function);

    // Of all functions that are started as threads, the first thread's included.
    static std::vector<const llvm::Function *> entries(const llvm::Module &module);

  private:
    Bound compute(const Converted &one);

    llvm::DenseMap<const llvm::Function *, const Converted *> known;
    std::map<const llvm::Function *, Bound> bounds;
    std::set<const llvm::Function *> active;
};

} // namespace cc

#endif
