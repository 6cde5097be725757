#include "compiler/plugin/read/simplified.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassInstrumentation.h>

using namespace llvm;

namespace cc
{

// Functions that nothing has changed so far, with their numbers of instructions.
static DenseMap<const Function *, unsigned> unchanged;

void noteSimplified(const Module &module)
{
    for (const Function &function : module)
        if (!function.isDeclaration())
            unchanged[&function] = function.getInstructionCount();
}

static const Function *functionOf(const Any &code)
{
    if (const auto *function = any_cast<const Function *>(&code))
        return *function;
    const auto *loop = any_cast<const Loop *>(&code);
    return loop ? (*loop)->getHeader()->getParent() : nullptr;
}

// None of its passes runs while it is unchanged, so inlining alone, or a pass over the whole
// program, can change it.
static bool isUnchanged(const Function &function)
{
    const auto at = unchanged.find(&function);
    if (at == unchanged.end())
        return false;
    if (at->second == function.getInstructionCount())
        return true;
    unchanged.erase(at);
    return false;
}

namespace
{

class BeginOptimising : public PassInfoMixin<BeginOptimising>
{
  public:
    static PreservedAnalyses run(Module &, ModuleAnalysisManager &)
    {
        unchanged.clear();
        return PreservedAnalyses::all();
    }
    static bool isRequired()
    {
        return true;
    }
};

} // namespace

void skipSimplified(PassBuilder &builder)
{
    PassInstrumentationCallbacks *callbacks = builder.getPassInstrumentationCallbacks();
    if (!callbacks)
        return;
    callbacks->registerShouldRunOptionalPassCallback([](StringRef, Any code) {
        const Function *function = unchanged.empty() ? nullptr : functionOf(code);
        return !function || !isUnchanged(*function);
    });
    builder.registerOptimizerEarlyEPCallback(
        [](ModulePassManager &manager, OptimizationLevel) { manager.addPass(BeginOptimising()); });
}

} // namespace cc
