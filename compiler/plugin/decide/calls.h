// Which functions may wait, and how each call in them is made.
//
// A function may wait if it calls one that does: a primitive of the runtime, another function of
// the program, any function through a pointer once the address of one that may wait was taken, or
// foreign code that may call such a function back. Most of them are converted. One that cannot be
// is always run on a stack of its own, and so is foreign code that calls back.
#ifndef GS_COMPILER_CALLS_H
#define GS_COMPILER_CALLS_H

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>
#include <string>

namespace cc
{

// The function main of the program, and what calls it in the first thread; the runtime has the
// other main.
constexpr char ProgramMain[] = "gs_cc_program", StartOfMain[] = "gs_cc_main";

// An attribute of what stands for a function that runs on a stack where its address is taken: it
// has nothing but the call.
constexpr char IsWrapper[] = "gossamer-wrapper";

enum class CallKind {
    Plain,     // it returns when it has its result
    Primitive, // a function of the runtime: if it has to wait, it is called again
    Converted, // it may return early, and leaves its result elsewhere later
    OnStack,   // to be made on a stack of its own
};

// Whether the function is passed as one that a thread starts with.
bool isStartRoutine(const llvm::CallBase &call, const llvm::Use &use);

class Calls
{
  public:
    explicit Calls(llvm::Module &module);

    // Find the functions that may wait. hasStack: the first thread runs on one.
    void analyse(bool hasStack);

    CallKind kindOf(const llvm::CallBase &call) const;

    // Whether the call is through a pointer, to what may be a function of another library.
    bool mayLeaveProgram(const llvm::CallBase &call) const;
    bool mayWait(const llvm::Function &function) const
    {
        return reasons.count(&function);
    }
    bool isConverted(const llvm::Function &function) const
    {
        return mayWait(function) && !obstacles.count(&function);
    }
    llvm::ArrayRef<llvm::Function *> waiting() const
    {
        return order.getArrayRef();
    }

    // Why the function cannot be converted; empty if it can be.
    llvm::StringRef obstacleTo(const llvm::Function &function) const;

    // The functions of the program that wait, and run on stacks.
    std::vector<const llvm::Function *> onStacks() const;

    // The calls by which it waits: "serve -> receive -> read".
    std::string chainOf(const llvm::Function &function) const;

    // How the function is called in the program's text.
    static llvm::StringRef nameOf(const llvm::Function &function);

    const llvm::Module &program() const
    {
        return module;
    }

    // Report an error, with which the compiler fails.
    void fail(const llvm::Twine &message) const
    {
        module.getContext().emitError(message);
    }

  private:
    void findPrimitives();
    void wrap(llvm::Function &function);
    bool waits(const llvm::CallBase &call) const;
    bool isForeign(const llvm::CallBase &call) const;
    bool findWaitingCall(llvm::Function &function);
    void noteAddresses(const llvm::Function &function);
    void findObstacle(llvm::Function &function, bool hasStack);
    void findUnused();

    llvm::Module &module;
    llvm::SetVector<llvm::Function *> order;
    // Whose call each waits for; itself: a function through a pointer; nullptr: it is a primitive.
    // Calls are no keys: the conversion replaces them.
    llvm::DenseMap<const llvm::Function *, const llvm::Function *> reasons;
    llvm::DenseMap<const llvm::Function *, const char *> obstacles;
    bool isAddressTaken = false, isVariadicAddressTaken = false, hasOwnStreams = false;
    bool hasOtherLibraries = false;
};

} // namespace cc

#endif
