// What functions of the C library mean for the analysis of shared data.
#ifndef GS_COMPILER_EFFECTS_H
#define GS_COMPILER_EFFECTS_H

#include <llvm/ADT/StringRef.h>

namespace cc
{

enum class Effect {
    None,
    Lock,
    LockShared,
    TryLock, // the lock is taken if the result is 0
    TryLockShared,
    Unlock,
    Create, // starts a thread
    Join,
    Allocate,
    Write, // to memory that it is given
};

struct LibraryCall {
    Effect effect = Effect::None;
    unsigned argument = 0; // of the lock, or of the memory; of a start routine, the next one is its
};

LibraryCall effectOf(llvm::StringRef name);

} // namespace cc

#endif
