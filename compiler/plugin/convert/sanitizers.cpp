#include "compiler/plugin/convert/sanitizers.h"
#include "compiler/plugin/read/errno_address.h"
#include "compiler/plugin/read/known.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

using namespace llvm;

namespace cc
{

// And errno: the threads of a worker have the same one in turn.
static bool isStateItself(const Value *object)
{
    if (isErrnoAddress(*object))
        return true;
    if (const auto *call = dyn_cast<IntrinsicInst>(object))
        if (call->getIntrinsicID() == Intrinsic::threadlocal_address)
            object = call->getArgOperand(0);
    const auto *variable = dyn_cast<GlobalVariable>(object);
    return variable && variable->isThreadLocal() && variable->getName().starts_with(RuntimePrefix);
}

static bool isState(const Value &address)
{
    SmallVector<const Value *, 4> objects;
    getUnderlyingObjects(&address, objects, nullptr, 0);
    return any_of(objects, isStateItself); // stores to it and to a record may be one
}

static bool isOfRuntime(const Instruction &instruction)
{
    const auto *call = dyn_cast<CallInst>(&instruction);
    const auto *callee = call ? dyn_cast<Function>(call->getCalledOperand()) : nullptr;
    return callee && callee->isDeclaration() && callee->getName().starts_with(RuntimePrefix) &&
           !callee->getName().contains("longjmp"); // it does not return
}

// What a call of the runtime does is no access of the program's.
static void ignoreRuntime(Function &function)
{
    Module &module = *function.getParent();
    Type *const nothing = Type::getVoidTy(module.getContext());
    SmallVector<Instruction *, 16> found;
    for (Instruction &instruction : instructions(function))
        if (isOfRuntime(instruction))
            found.push_back(&instruction);
    for (Instruction *call : found) {
        CallInst::Create(module.getOrInsertFunction("__tsan_ignore_thread_begin", nothing), "",
                         call->getIterator());
        CallInst::Create(module.getOrInsertFunction("__tsan_ignore_thread_end", nothing), "",
                         call->getNextNode()->getIterator());
    }
}

static bool isForThreads(const Module &module)
{
    return any_of(module, [](const Function &function) {
        return function.hasFnAttribute(Attribute::SanitizeThread);
    });
}

// A child of a fork may use the pool of kernel threads, too. The sanitizer does not see there that
// mutexes are unlocked which were locked for the fork; those of the program are the runtime's, of
// which it knows nothing but the order. Of two weak definitions, that of the
// sanitizer comes first; so the program gets one, if it has none of its own.
void setDefaultsOfSanitizer(Module &module)
{
    static constexpr char Name[] = "__tsan_default_options";
    const Function *own = module.getFunction(Name);
    if ((own && !own->isDeclaration()) || !isForThreads(module))
        return;
    IRBuilder<> builder(module.getContext());
    FunctionCallee options = module.getOrInsertFunction(Name, builder.getPtrTy());
    builder.SetInsertPoint(
        BasicBlock::Create(module.getContext(), "", cast<Function>(options.getCallee())));
    builder.CreateRet(
        builder.CreateGlobalString("die_after_fork=0:report_mutex_bugs=0", "", 0, &module));
}

PreservedAnalyses LeaveStateAlone::run(Module &module, ModuleAnalysisManager &)
{
    const bool isIgnored = isForThreads(module);
    for (Function &function : module) {
        if (isIgnored) // also by functions that the plugin has added
            ignoreRuntime(function);
        for (Instruction &instruction : instructions(function)) {
            const Value *address = getLoadStorePointerOperand(&instruction);
            if (address && isState(*address))
                instruction.setMetadata(LLVMContext::MD_nosanitize,
                                        MDNode::get(module.getContext(), {}));
        }
    }
    return PreservedAnalyses::none();
}

} // namespace cc
