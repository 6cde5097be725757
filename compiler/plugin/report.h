// What the plugin tells of a program.
#ifndef GS_COMPILER_REPORT_H
#define GS_COMPILER_REPORT_H

#include "compiler/plugin/convert.h"

namespace cc
{

// A function with the annotation gs_atomic that may wait is an error.
void checkAtomic(llvm::Module &module, const Calls &calls);

// Write a report: as JSON if the path ends so, as a page if it ends in .html, as text otherwise.
void writeReport(const std::string &path, const Calls &calls, llvm::ArrayRef<Converted> converted);

// As a page with the graph of calls (page.cpp).
void writePage(llvm::raw_ostream &stream, const Calls &calls, llvm::ArrayRef<Converted> converted);

} // namespace cc

#endif
