// What the program calls, and `gossamer cc` does not do as POSIX threads: each such call is named
// by a warning (docs/cc-differences.md).
#ifndef GS_COMPILER_DEPARTURES_H
#define GS_COMPILER_DEPARTURES_H

#include <llvm/IR/Module.h>

namespace cc
{

// Once for each function or constant, with the first place where it is called.
void warnOfDepartures(const llvm::Module &module);

} // namespace cc

#endif
