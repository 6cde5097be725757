// What the threads of a program share: memory that several of them reach without a common lock, and
// which critical sections may run at the same time. By static analysis: it can miss accesses, and
// warn of some that cannot happen together. docs/design/cc.md names its sources and its limits.
#ifndef GS_COMPILER_SHARING_H
#define GS_COMPILER_SHARING_H

#include <llvm/IR/Module.h>
#include <llvm/Support/JSON.h>
#include <string>
#include <vector>

namespace cc
{

// How a thread reaches a place of the program.
struct Reach {
    std::string thread; // its start routine
    bool isRepeated;    // several of its threads may run at the same time
    std::string chain;  // "serve -> count"
    std::string place;  // "server.c:30"
    bool isWrite;
    std::vector<std::string> locks;
};

struct Race {
    std::string name, place; // of the data
    bool isVolatile;
    std::vector<std::string> others; // other parts of it of which the same is true
    Reach first, second;
};

struct LockedSection {
    std::string function, place;
    bool isShared; // its lock is taken for reading only
    std::vector<std::string> threads;
};

struct LockUse {
    std::string name, place;
    std::vector<LockedSection> sections;
    bool isOfOneThread = false;        // no other thread enters any of its sections
    std::vector<std::string> together; // locks with sections that may run at the same time
    std::vector<std::string> within;   // locks that are always held meanwhile
};

// Two locks that are taken in both orders.
struct Inversion {
    std::string first, second;
    Reach firstInside, secondInside; // where the first is taken while the second is held, and so on
};

struct Sharing {
    std::vector<Race> races;
    std::vector<LockUse> locks;
    std::vector<Inversion> inversions;
    bool isCut = false; // parts of the program were left out
};

// Leaves the module as it is.
Sharing findSharing(const llvm::Module &module);

// "by serve at server.c:30: serve -> count, with lock"
std::string textOf(const Reach &reach);

// What may run at the same time as the sections of a lock, in sentences.
std::vector<std::string> sentencesOf(const LockUse &use);

// As clang writes warnings, to the standard error.
void warn(const Sharing &sharing);

void writeSharing(llvm::raw_ostream &stream, const Sharing &sharing);
llvm::json::Object asJson(const Sharing &sharing);
void writeSharingAsPage(llvm::raw_ostream &stream, const Sharing &sharing);

} // namespace cc

#endif
