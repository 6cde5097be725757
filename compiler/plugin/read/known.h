// What the plugin knows of the C library: which functions wait, and which are the runtime's.
#ifndef GS_COMPILER_KNOWN_H
#define GS_COMPILER_KNOWN_H

#include <llvm/ADT/StringRef.h>
#include <llvm/IR/Module.h>

namespace cc
{

// A function that the runtime has under the same name behind the prefix, with the same signature.
struct Known {
    const char *name;
    // It may wait: a call that has to wait is made again when the thread resumes.
    bool waits;
    // Bit i: it does not keep parameter i, a pointer, beyond the call, nor while it waits.
    unsigned borrowed;
    // Bit i: it only writes to what parameter i points to.
    unsigned written;
};

constexpr char RuntimePrefix[] = "gs_cc_";

// Returns nullptr if the runtime has no function of this name.
const Known *findKnown(llvm::StringRef name);

// Whether the name with the runtime's prefix is that of a function that may wait. Returns nullptr
// if it is none of the runtime's.
const Known *findRuntime(llvm::StringRef name);

// Whether it is one of those that work on a stream.
bool isStream(llvm::StringRef name);

// Whether a call of the C library's function blocks the kernel thread.
bool isBlocking(llvm::StringRef name);

// One of these that reads from a stream, or writes to it.
struct StreamCall {
    const char *name;
    bool reads;
    int stream; // the number of the argument, or one of these
    int format; // the same; for others than reading bytes one of these
};
enum { Standard = -1, StandardError = -2, NoFormat = -3, OneCharacter = -4 };
const StreamCall *findStreamCall(llvm::StringRef name);

// Whether the C library defines the function, and calls no function of the program's from it.
bool isLibraryLeaf(llvm::StringRef name);

// Whether neither the C library nor the runtime defines the function.
bool isOfOtherLibrary(llvm::StringRef name);

// Whether the function is that of another library, or finds such a function: code that may make a
// descriptor non-blocking behind the runtime's back, and whose pointers the program may have.
bool mayChangeDescriptors(llvm::StringRef name);

// Whether the program refers to such a function, or to a variable of another library, whose
// pointers to functions it may call.
bool usesOtherLibraries(const llvm::Module &module);

} // namespace cc

#endif
