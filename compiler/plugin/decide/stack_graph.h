// Who calls whom when all is converted, for the driver: it knows the size of each frame once code
// was generated, and adds up how much stack each call on a stack needs (compiler/driver/stacks.h).
#ifndef GS_COMPILER_STACK_GRAPH_H
#define GS_COMPILER_STACK_GRAPH_H

#include "compiler/plugin/job.h"

#include <string>

namespace cc
{

// Number the calls on stacks, and write the graph to the file of the job. Returns a message; empty:
// success.
std::string writeStackGraph(llvm::Module &module, const Job &job);

// Where a report is to say how much stack the function needs: the driver replaces it by a sentence,
// a number (in JSON, with the quotes), or the reason why there is no bound.
std::string sentenceOfStack(const llvm::Function &function);
std::string bytesOfStack(const llvm::Function &function);
std::string reasonOfStack(const llvm::Function &function);

// The same of the worker's stack, on which the thread runs that starts with the function.
std::string sentenceOfWorker(const llvm::Function &function);
std::string bytesOfWorker(const llvm::Function &function);
std::string reasonOfWorker(const llvm::Function &function);

} // namespace cc

#endif
