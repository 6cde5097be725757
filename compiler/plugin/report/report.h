// What the plugin tells of a program.
#ifndef GS_COMPILER_REPORT_H
#define GS_COMPILER_REPORT_H

#include "compiler/plugin/convert/convert.h"
#include "compiler/plugin/decide/sharing.h"

namespace cc
{

// A function with the annotation gs_atomic that may wait is an error.
void checkAtomic(llvm::Module &module, const Calls &calls);

// What a report is about.
struct Findings {
    const Calls &calls;
    llvm::ArrayRef<Converted> converted;
    const Sharing &sharing;
};

// Write a report: as JSON if the path ends so, as text otherwise.
void writeReport(const std::string &path, const Findings &findings);

} // namespace cc

#endif
