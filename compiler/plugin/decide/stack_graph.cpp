#include "compiler/plugin/decide/stack_graph.h"
#include "compiler/plugin/decide/stack_calls.h"
#include "compiler/plugin/read/known.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/ADT/StringSet.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/raw_ostream.h>

using namespace llvm;

namespace cc
{

namespace
{

class Graph
{
  public:
    Graph(Module &module, raw_ostream &stream) : module(module), stream(stream)
    {
    }
    void write(const Job &job);

  private:
    void numberStacks();
    void writeHandlers();
    void writeFunction(const Function &function);
    void writeCall(const CallBase &call);
    void writeInstrumentation(const Function &function);
    void writeContinuations(const Instruction &instruction);
    void findResumes(const Constant &constant);

    Module &module;
    raw_ostream &stream;
    SmallPtrSet<const Constant *, 16> seen; // of the function that is being written
};

// What is called by a call on a stack is its first argument, and the last one is where the driver
// puts what it needs.
void Graph::numberStacks()
{
    const Function *onStack = module.getFunction(OnStack);
    if (!onStack)
        return;
    MapVector<const Function *, SmallVector<CallBase *, 1>> callers;
    for (const User *user : onStack->users())
        if (auto *call = dyn_cast<CallBase>(const_cast<User *>(user)))
            if (const auto *caller = dyn_cast<Function>(call->getArgOperand(0)))
                callers[caller].push_back(call);
    auto *number = Type::getInt32Ty(module.getContext());
    auto *type = ArrayType::get(number, callers.size());
    auto *needs = new GlobalVariable(module, type, true, GlobalValue::ExternalLinkage, nullptr,
                                     "gs_cc_stack_needs");
    needs->setDSOLocal(true);
    unsigned i = 0;
    for (auto &[caller, calls] : callers) {
        Constant *at[] = {ConstantInt::get(number, 0), ConstantInt::get(number, i++)};
        Constant *need = ConstantExpr::getInBoundsGetElementPtr(type, needs, at);
        for (CallBase *call : calls)
            call->setArgOperand(2, need);
        stream << "stack\t" << caller->getName() << "\n";
    }
}

// Whether the program itself may do something with the address, other than to call it.
bool isAddressTaken(const Constant &address)
{
    return any_of(address.uses(), [](const Use &use) {
        const User *user = use.getUser();
        if (const auto *call = dyn_cast<CallBase>(user))
            return !call->isCallee(&use);
        if (const auto *variable = dyn_cast<GlobalVariable>(user))
            return !variable->getName().starts_with("llvm.");
        if (isa<BlockAddress>(user))
            return false;
        const auto *constant = dyn_cast<Constant>(user);
        return !constant || isAddressTaken(*constant);
    });
}

// Of whatever type it is, it is called with a number. Without a prototype it has no parameter.
bool mayHandle(const Function &function)
{
    const FunctionType &type = *function.getFunctionType();
    return (!type.getNumParams() || type.getParamType(0)->isIntegerTy()) &&
           isAddressTaken(function);
}

// SIG_IGN and SIG_DFL are none.
bool setsHandlers(const Function &setter)
{
    return any_of(setter.uses(), [&](const Use &use) {
        const auto *call = dyn_cast<CallBase>(use.getUser());
        if (!call || !call->isCallee(&use) || !setter.getName().ends_with("signal"))
            return true;
        const auto *handler = dyn_cast<Constant>(call->getArgOperand(1)->stripPointerCasts());
        const auto *expression = dyn_cast_or_null<ConstantExpr>(handler);
        return !handler || !(handler->isNullValue() ||
                             (expression && isa<ConstantInt>(expression->getOperand(0))));
    });
}

// A handler interrupts whatever runs, on its stack: all functions that may be one, if the program
// sets any.
void Graph::writeHandlers()
{
    static constexpr StringRef setters[] = {
        "gs_cc_sigaction", "gs_cc_signal", "gs_cc___sysv_signal",
        "__sigaction",     "sysv_signal",  "bsd_signal",
        "ssignal",         "sigset",       "sigvec"};
    if (none_of(setters, [&](StringRef name) {
            const Function *setter = module.getFunction(name);
            return setter && setsHandlers(*setter);
        }))
        return;
    for (const Function &function : module)
        if (mayHandle(function))
            stream << "handler\t" << function.getName() << "\n";
}

// Assembler that neither calls nor moves the stack pointer needs no stack.
bool needsNoStack(const InlineAsm &assembler)
{
    const std::string text = StringRef(assembler.getAsmString()).lower();
    return none_of(ArrayRef<StringRef>{"call", "push", "sp", "enter", "bl"},
                   [&](StringRef word) { return StringRef(text).contains(word); });
}

// Those that become calls of functions, which need more than a few bytes.
StringRef functionOf(const Function &intrinsic)
{
    static const StringSet<> functions = {"sin",  "cos",   "tan", "pow",  "powi",  "exp",
                                          "exp2", "exp10", "log", "log2", "log10", "fma"};
    const StringRef name = intrinsic.getName().split('.').second.split('.').first;
    return functions.contains(name) ? name : "";
}

// What is passed on the stack, beyond six values in registers.
uint64_t bytesOfArguments(const CallBase &call)
{
    uint64_t bytes = call.arg_size() > 6 ? 8 * (call.arg_size() - 6) : 0;
    for (unsigned i = 0; i < call.arg_size(); i++)
        if (Type *type = call.getParamByValType(i))
            bytes += alignTo(call.getModule()->getDataLayout().getTypeAllocSize(type), 16);
    return bytes;
}

void Graph::writeCall(const CallBase &call)
{
    const Value *called = call.getCalledOperand()->stripPointerCasts();
    const auto *callee = dyn_cast<Function>(called);
    if (const auto *assembler = dyn_cast<InlineAsm>(called)) {
        if (!needsNoStack(*assembler))
            stream << "unknown\thas inline assembler\n";
        return;
    }
    if (!callee) {
        stream << "unknown\tcalls a function through a pointer\n";
        return;
    }
    const StringRef name = callee->isIntrinsic() ? functionOf(*callee) : callee->getName();
    if (!name.empty())
        stream << "call\t" << name << "\t" << bytesOfArguments(call) << "\n";
}

// A function continues in another one, which its worker calls: the function refers to it by
// constants.
void Graph::findResumes(const Constant &constant)
{
    if (!seen.insert(&constant).second)
        return;
    if (const auto *function = dyn_cast<Function>(&constant)) {
        if (function->getName().ends_with(".resume"))
            stream << "resumes\t" << function->getName() << "\n";
        return;
    }
    const auto *variable = dyn_cast<GlobalVariable>(&constant);
    if (variable && variable->hasLocalLinkage() && variable->isConstant() &&
        variable->hasInitializer())
        findResumes(*variable->getInitializer());
    for (const Use &use : constant.operands())
        if (const auto *operand = dyn_cast<Constant>(&use))
            findResumes(*operand);
}

// Calls that the backend adds, or room for them.
void Graph::writeInstrumentation(const Function &function)
{
    for (StringRef key : {"instrument-function-entry", "instrument-function-entry-inlined",
                          "instrument-function-exit", "instrument-function-exit-inlined"})
        if (function.hasFnAttribute(key)) {
            StringRef name = function.getFnAttribute(key).getValueAsString();
            name.consume_front("\1");
            stream << "call\t" << name << "\t0\n";
        }
    for (StringRef key : {"fentry-call", "function-instrument", "xray-instruction-threshold",
                          "patchable-function-entry", "split-stack"})
        if (function.hasFnAttribute(key))
            stream << "unknown\thas calls added to it\n";
}

void Graph::writeFunction(const Function &function)
{
    MaybeAlign alignment;
    for (const Instruction &instruction : instructions(function))
        if (const auto *variable = dyn_cast<AllocaInst>(&instruction))
            alignment = std::max(alignment.valueOrOne(), variable->getAlign());
    const uint64_t extra = alignment.valueOrOne() > Align(16) ? alignment->value() : 0;
    stream << "function\t" << function.getName() << "\t" << extra << "\n";
    writeInstrumentation(function);
    seen.clear();
    for (const Instruction &instruction : instructions(function)) {
        if (const auto *call = dyn_cast<CallBase>(&instruction))
            writeCall(*call);
        for (const Use &use : instruction.operands())
            if (const auto *constant = dyn_cast<Constant>(&use))
                findResumes(*constant);
    }
}

// Returns nullptr if there may be bounds.
const char *reasonForNone(const Module &module, const Job &job)
{
    if (!job.isSimplified)
        return "sanitizers make frames larger";
    if (usesOtherLibraries(module))
        return "other libraries may handle signals on it";
    if (module.getNamedMetadata(MachineCode))
        return "machine code is linked that may handle signals on it";
    if (module.getFunction("gs_cc__pthread_cleanup_push"))
        return "cleanups may run on it";
    if (module.getFunction("register_printf_specifier") ||
        module.getFunction("register_printf_function"))
        return "printf may call functions of the program";
    if (any_of(module, [](const Function &one) { return one.getName().starts_with(WrapPrefix); }))
        return "functions are called in place of others";
    const Function *allocator = module.getFunction("malloc");
    return allocator && !allocator->isDeclaration() ? "the program has an allocator of its own"
                                                    : nullptr;
}

void Graph::write(const Job &job)
{
    numberStacks();
    if (const char *reason = reasonForNone(module, job))
        stream << "none\t" << reason << "\n";
    writeHandlers();
    for (const Function &function : module)
        if (!function.isDeclaration())
            writeFunction(function);
}

} // namespace

std::string writeStackGraph(Module &module, const Job &job)
{
    std::error_code error;
    raw_fd_ostream stream(job.stacks, error);
    if (error)
        return job.stacks + ": " + error.message();
    Graph(module, stream).write(job);
    return "";
}

static std::string marker(StringRef kind, const Function &function)
{
    return ("@{" + kind + ":" + function.getName() + "}").str();
}

std::string sentenceOfStack(const Function &function)
{
    return marker("stack", function);
}

std::string bytesOfStack(const Function &function)
{
    return marker("stack-bytes", function);
}

std::string reasonOfStack(const Function &function)
{
    return marker("stack-reason", function);
}

std::string sentenceOfWorker(const Function &function)
{
    return marker("worker", function);
}

std::string bytesOfWorker(const Function &function)
{
    return marker("worker-bytes", function);
}

std::string reasonOfWorker(const Function &function)
{
    return marker("worker-reason", function);
}

} // namespace cc
