// The plugin of clang by which `gossamer cc` links a program: it merges the bitcode of all objects,
// and converts the functions that may wait. Clang then optimises the whole program and generates
// code for it.
#include "compiler/plugin/convert/convert.h"
#include "compiler/plugin/convert/kept_state.h"
#include "compiler/plugin/convert/stress.h"
#include "compiler/plugin/convert/thread_locals.h"
#include "compiler/plugin/decide/allocator.h"
#include "compiler/plugin/decide/calls.h"
#include "compiler/plugin/decide/departures.h"
#include "compiler/plugin/decide/plain.h"
#include "compiler/plugin/decide/stack_calls.h"
#include "compiler/plugin/decide/stack_graph.h"
#include "compiler/plugin/decide/waiting_loops.h"
#include "compiler/plugin/job.h"
#include "compiler/plugin/read/constructors.h"
#include "compiler/plugin/read/known.h"
#include "compiler/plugin/read/runtime_names.h"
#include "compiler/plugin/read/simplified.h"
#include "compiler/plugin/read/thread_results.h"
#include "compiler/plugin/report/report.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

using namespace llvm;

namespace cc
{

// The runtime has the function main, and calls that of the program in its first thread.
static void renameMain(Module &module)
{
    Function *program = module.getFunction("main");
    if (!program || program->isDeclaration())
        return;
    LLVMContext &context = module.getContext();
    auto *number = Type::getInt32Ty(context);
    auto *pointer = PointerType::getUnqual(context);
    program->setName(ProgramMain);
    program->setLinkage(GlobalValue::InternalLinkage);
    program->setDSOLocal(true);
    program->addFnAttr(Attribute::NoInline); // reports and debuggers know it by its name
    Function *start = Function::Create(FunctionType::get(number, {number, pointer, pointer}, false),
                                       GlobalValue::ExternalLinkage, StartOfMain, module);
    IRBuilder<> builder(BasicBlock::Create(context, "", start));
    SmallVector<Value *, 3> arguments;
    for (unsigned i = 0; i < program->arg_size(); i++)
        arguments.push_back(start->getArg(i));
    moveConstructors(module, builder, {start->getArg(0), start->getArg(1), start->getArg(2)});
    CallInst *result = builder.CreateCall(program, arguments);
    if (result->getType() == number)
        builder.CreateRet(result);
    else
        builder.CreateRet(builder.getInt32(0));
}

// Tells the runtime whether the program calls functions that are neither its own nor the C
// library's.
static void noteForeignCode(Module &module)
{
    const bool isSelfContained = !usesOtherLibraries(module);
    auto *type = Type::getInt8Ty(module.getContext());
    new GlobalVariable(module, type, true, GlobalValue::ExternalLinkage,
                       ConstantInt::get(type, isSelfContained), "gs_cc_is_self_contained");
}

// Tells the runtime whether the first thread runs on a stack.
static void noteFirstThread(Module &module, bool hasStack)
{
    auto *type = Type::getInt8Ty(module.getContext());
    new GlobalVariable(module, type, true, GlobalValue::ExternalLinkage,
                       ConstantInt::get(type, hasStack), "gs_cc_first_has_stack");
}

// What its threads share, as its source has it.
static Sharing sharing;

// The program is linked before it is optimised.
class LinkProgram : public PassInfoMixin<LinkProgram>
{
  public:
    PreservedAnalyses run(Module &module, ModuleAnalysisManager &)
    {
        Job job;
        if (!job.read())
            return PreservedAnalyses::all();
        const std::string failure = linkInputs(module, job);
        if (!failure.empty()) {
            module.getContext().emitError(failure);
            return PreservedAnalyses::none();
        }
        if (job.warnsOfRaces || !job.reports.empty())
            sharing = findSharing(module);
        if (job.warnsOfRaces)
            warn(sharing);
        if (job.warnsOfDepartures)
            warnOfDepartures(module);
        renameMain(module);
        keepAllocators(module);
        addTurns(module);
        if (job.stress)
            addYields(module, job.stress);
        if (job.isSimplified)
            noteSimplified(module);
        renameToRuntime(module);
        makeRoomForResults(module);
        noteForeignCode(module);
        noteKeptState(module);
        return PreservedAnalyses::none();
    }
    static bool isRequired()
    {
        return true;
    }
};

// And converted afterwards: so what is optimised is a third of what is generated, and a value that
// is not needed behind a wait is in no record.
class ConvertProgram : public PassInfoMixin<ConvertProgram>
{
  public:
    PreservedAnalyses run(Module &module, ModuleAnalysisManager &)
    {
        Job job;
        if (!job.read() || !module.getFunction(StartOfMain))
            return PreservedAnalyses::all();
        convertAll(module, job);
        return PreservedAnalyses::none();
    }
    static bool isRequired()
    {
        return true;
    }

  private:
    static void convertAll(Module &module, const Job &job)
    {
        // Waits are forced into functions that are converted.
        const bool hasStack = !job.convertsMain && !job.stress;
        noteFirstThread(module, hasStack);
        countTurns(module);
        Calls calls(module);
        calls.analyse(hasStack);
        checkAtomic(module, calls);
        PlainCopies copies(calls);
        copies.make();
        relaxAttributes(module, calls);
        moveThreadLocals(module);
        encloseAllocators(calls.waiting());
        std::vector<Converted> converted;
        for (Function *function : calls.waiting())
            if (calls.isConverted(*function))
                converted.push_back(convert(*function, calls, job));
            else
                lowerBlockingCalls(*function);
        copies.addChoices();
        for (const std::string &path : job.reports)
            writeReport(path, {calls, converted, sharing});
        const std::string failure = writeStackGraph(module, job);
        if (!failure.empty())
            module.getContext().emitError(failure);
        verify(module, copies);
    }

    // Copies are as clang made them.
    static void verify(Module &module, const PlainCopies &copies)
    {
        std::string text;
        raw_string_ostream stream(text);
        for (const Function &function : module)
            if (!copies.contain(function) && verifyFunction(function, &stream))
                module.getContext().emitError("the converted program is not valid: " + text);
    }
};

} // namespace cc

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo()
{
    return {LLVM_PLUGIN_API_VERSION, "gossamer-cc", "0.1", [](PassBuilder &builder) {
                cc::skipSimplified(builder);
                builder.registerPipelineStartEPCallback(
                    [](ModulePassManager &manager, OptimizationLevel) {
                        manager.addPass(cc::LinkProgram());
                    });
                builder.registerOptimizerLastEPCallback(
                    [](ModulePassManager &manager, OptimizationLevel) {
                        manager.addPass(cc::ConvertProgram());
                    });
            }};
}
