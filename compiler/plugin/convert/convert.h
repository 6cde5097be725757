// Makes a function resumable. What is made of `int f(int a)`, which calls `g` that may wait:
//
//     int f(int a)                              runs as before, on any stack
//         b = g(a);
//         if (state.suspending)                 g has to wait, and has made a record of its own
//             record = gs_cc_record(&site);
//             record->live = a;                 what is needed afterwards, and nothing else
//             return 0;                         the caller does the same
//         return a + b;
//
//     void f.resume(record)                     called when g has its result
//         a = record->live; b = state.result;
//         state.result = a + b;                 for the record of the caller, which is resumed next
//
// A primitive is called again when the thread resumes; it makes no record. slots.h has another way,
// for functions whose code is long.
#ifndef GS_COMPILER_CONVERT_H
#define GS_COMPILER_CONVERT_H

#include "compiler/plugin/convert/locals.h"
#include "compiler/plugin/decide/calls.h"
#include "compiler/plugin/job.h"

namespace cc
{

enum class SiteKind {
    Primitive, // a function of the runtime
    Function,  // another converted function
    Pointer,   // a function that is not known
    Stack,     // a call on a stack of its own, or in the pool of kernel threads
};

// What is known of a place where a converted function may wait.
struct Site {
    SiteKind kind;
    const llvm::Function *callee; // nullptr: it is not known
    llvm::DebugLoc location;
    uint64_t recordSize;
    llvm::SmallVector<std::pair<std::string, uint64_t>, 4> live; // names and sizes
};

struct Converted {
    llvm::Function *function;
    uint64_t environmentSize;
    unsigned stackCalls;
    std::vector<Site> sites;
    std::vector<Object> objects; // of the environment
};

Converted convert(llvm::Function &function, const Calls &calls, const Job &job);

// Remove what was derived from the assumption that a call of a function that may wait is complete
// when it returns.
void relaxAttributes(llvm::Module &module, const Calls &calls);

} // namespace cc

#endif
