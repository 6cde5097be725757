#include "compiler/plugin/calls.h"
#include "compiler/plugin/known.h"

#include <fcntl.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <sys/syscall.h>

using namespace llvm;

namespace cc
{

Calls::Calls(Module &module) : module(module)
{
}

static const Function *calleeOf(const CallBase &call)
{
    return dyn_cast<Function>(call.getCalledOperand()->stripPointerCasts());
}

// ---- Functions of the runtime ----

static void setAttributes(Function &function, const Known &known)
{
    if (function.getName() == "gs_cc___waiting_loop")
        return;
    function.removeFnAttr(Attribute::NoReturn);
    function.removeFnAttr(Attribute::WillReturn);
    function.removeFnAttr(Attribute::Memory);
    for (unsigned i = 0; i < function.arg_size(); i++) {
        if (known.borrowed >> i & 1)
            function.addParamAttr(i, Attribute::NoCapture);
        else
            function.removeParamAttr(i, Attribute::NoCapture);
    }
}

static bool isCalleeOf(const Use &use)
{
    const auto *call = dyn_cast<CallBase>(use.getUser());
    return call && call->isCallee(&use);
}

// A label refers to its function, too, and is not its address.
static bool takesAddress(const Use &use)
{
    return !isCalleeOf(use) && !isa<BlockAddress>(use.getUser());
}

// What takes the address of a function that cannot return early gets that of one that calls it, and
// can.
static Function *makeWrapper(Function &function, function_ref<bool(const Use &)> isWanted)
{
    Module &module = *function.getParent();
    if (function.isVarArg() || none_of(function.uses(), isWanted))
        return nullptr;
    Function *wrapper = Function::Create(function.getFunctionType(), GlobalValue::InternalLinkage,
                                         function.getName() + ".call", module);
    IRBuilder<> builder(BasicBlock::Create(module.getContext(), "", wrapper));
    SmallVector<Value *, 8> arguments;
    for (Argument &argument : wrapper->args())
        arguments.push_back(&argument);
    function.replaceUsesWithIf(wrapper, [&](const Use &use) { return isWanted(use); });
    CallInst *result = builder.CreateCall(&function, arguments);
    result->setCallingConv(function.getCallingConv());
    for (unsigned i = 0; i < function.arg_size(); i++)
        if (Type *type = function.getParamByValType(i))
            result->addParamAttr(i, Attribute::getWithByValType(module.getContext(), type));
    wrapper->setAttributes(result->getAttributes());
    wrapper->setCallingConv(function.getCallingConv());
    if (result->getType()->isVoidTy())
        builder.CreateRetVoid();
    else
        builder.CreateRet(result);
    return wrapper;
}

void Calls::wrap(Function &function)
{
    Function *wrapper = makeWrapper(function, takesAddress);
    if (!wrapper)
        return;
    isAddressTaken = true;
    reasons[wrapper] = &function;
    order.insert(wrapper);
}

// A pointer to a variadic function that waits cannot be called in the usual way: it is that of the
// C library.
static void leavePointers(Function &function, StringRef name)
{
    Module &module = *function.getParent();
    SmallVector<Use *, 8> uses;
    for (Use &use : function.uses())
        if (!isCalleeOf(use))
            uses.push_back(&use);
    if (uses.empty())
        return;
    Function *plain =
        Function::Create(function.getFunctionType(), GlobalValue::ExternalLinkage, name, module);
    for (Use *use : uses)
        use->set(plain);
}

// Give the calls whose argument is a constant that is chosen another callee, or is none if the
// runtime finds out (`chooses`): only these may wait.
static void separate(Function &control, StringRef name, unsigned argument,
                     function_ref<bool(uint64_t)> isChosen, bool chooses = false)
{
    const auto isWait = [&](const Use &use) {
        const auto *call = dyn_cast<CallBase>(use.getUser());
        if (!call || !call->isCallee(&use) || call->arg_size() <= argument)
            return false;
        const auto *command = dyn_cast<ConstantInt>(call->getArgOperand(argument));
        return command ? isChosen(command->getZExtValue()) : chooses;
    };
    if (none_of(control.uses(), isWait))
        return;
    Function *other = Function::Create(control.getFunctionType(), GlobalValue::ExternalLinkage,
                                       RuntimePrefix + name, *control.getParent());
    control.replaceUsesWithIf(other, [&](Use &use) { return isWait(use); });
}

// The numbers of compiler/runtime/system_calls.c.
static bool isWaitingNumber(uint64_t number)
{
    static const uint64_t known[] = {
        SYS_read,        SYS_write,       SYS_readv,           SYS_writev,     SYS_sendto,
        SYS_sendmsg,     SYS_sendmmsg,    SYS_recvfrom,        SYS_recvmsg,    SYS_recvmmsg,
        SYS_accept,      SYS_accept4,     SYS_connect,         SYS_ppoll,      SYS_pselect6,
        SYS_epoll_pwait, SYS_nanosleep,   SYS_clock_nanosleep, SYS_wait4,      SYS_waitid,
        SYS_flock,       SYS_sched_yield,
#ifdef SYS_pause
        SYS_pause,       SYS_poll,        SYS_select,          SYS_epoll_wait,
#endif
    };
    return is_contained(known, number);
}

// Of fcntl, the commands that wait for a lock; of syscall, those that the runtime has.
static void separateWaits(Module &module)
{
    for (const char *name : {"fcntl", "fcntl64"})
        if (Function *control = module.getFunction(name); control && control->isDeclaration())
            separate(*control, "__lock_record", 1, [](uint64_t command) {
                return command == F_SETLKW || command == F_OFD_SETLKW;
            });
    Function *call = module.getFunction("syscall");
    if (!call || !call->isDeclaration())
        return;
    separate(*call, "__futex", 0, [](uint64_t number) { return number == SYS_futex; });
    separate(*call, "__system_call", 0, isWaitingNumber, true);
}

// What setjmp saves of the thread, the runtime saves, and the C library saves no mask.
static void saveThreads(Module &module)
{
    for (const char *name : {"setjmp", "_setjmp", "__sigsetjmp", "sigsetjmp"}) {
        Function *function = module.getFunction(name);
        if (!function || !function->isDeclaration())
            continue;
        for (User *user : make_early_inc_range(function->users())) {
            auto *call = dyn_cast<CallBase>(user);
            if (!call || calleeOf(*call) != function || !call->arg_size())
                continue;
            IRBuilder<> builder(call);
            Value *saves = call->arg_size() > 1 ? call->getArgOperand(1) : builder.getInt32(0);
            FunctionCallee save = module.getOrInsertFunction(
                RuntimePrefix + std::string("__set_jump"), builder.getVoidTy(),
                call->getArgOperand(0)->getType(), builder.getInt32Ty());
            builder.CreateCall(save, {call->getArgOperand(0), saves});
            if (call->arg_size() > 1)
                call->setArgOperand(1, builder.getInt32(0));
        }
    }
}

static bool hasOwnStreamsIn(const Module &module)
{
    return module.getFunction("fopencookie");
}

static void rename(Function &function, const Known &known)
{
    function.setName(RuntimePrefix + function.getName());
    if (function.hasExternalWeakLinkage())
        function.setLinkage(GlobalValue::ExternalLinkage); // the runtime has it
    setAttributes(function, known);
    for (User *user : function.users())
        if (auto *call = dyn_cast<CallBase>(user); call && calleeOf(*call) == &function) {
            call->removeFnAttr(Attribute::NoReturn);
            call->removeFnAttr(Attribute::Memory);
        }
}

static bool startsThread(const Use &use)
{
    const auto *call = dyn_cast<CallBase>(use.getUser());
    return call && isStartRoutine(*call, use);
}

// Functions of other libraries with which threads start.
static std::vector<Function *> startsOfOthers(Module &module)
{
    std::vector<Function *> result;
    for (Function &function : module)
        if (function.isDeclaration() && any_of(function.uses(), startsThread))
            result.push_back(&function);
    return result;
}

// Those of headers, which clang inlines later if it has not done so: they call the C library.
static void dropInlineCopies(Module &module)
{
    for (Function &function : module)
        if (function.hasAvailableExternallyLinkage() && findKnown(function.getName()))
            function.deleteBody();
}

void renameToRuntime(Module &module)
{
    separateWaits(module);
    saveThreads(module);
    dropInlineCopies(module);
    std::vector<std::pair<Function *, std::string>> variadic;
    SmallVector<Function *, 32> primitives;
    for (Function &function : module) {
        const Known *known = function.isDeclaration() ? findKnown(function.getName()) : nullptr;
        if (!known || (isStream(function.getName()) && hasOwnStreamsIn(module)))
            continue;
        if (known->waits && function.isVarArg())
            variadic.push_back({&function, function.getName().str()});
        rename(function, *known);
        if (known->waits)
            primitives.push_back(&function);
    }
    for (auto &[function, name] : variadic)
        leavePointers(*function, name);
    for (Function *primitive : primitives)
        makeWrapper(*primitive, takesAddress);
    for (Function *start : startsOfOthers(module))
        makeWrapper(*start, startsThread);
}

// ---- Which functions may wait ----

bool Calls::isForeign(const CallBase &call) const
{
    const Function *callee = calleeOf(call);
    return callee && callee->isDeclaration() &&
           (!isLibraryLeaf(callee->getName()) || (hasOwnStreams && isStream(callee->getName())));
}

// It waits by calls of its own (libraries.h of the runtime).
static bool isOfAnotherLibrary(const Function &callee)
{
    return callee.isDeclaration() && !callee.isIntrinsic() && isOfOtherLibrary(callee.getName());
}

bool Calls::waits(const CallBase &call) const
{
    if (call.isInlineAsm())
        return false;
    if (const Function *callee = calleeOf(call)) {
        const Known *known = callee->isDeclaration() ? findRuntime(callee->getName()) : nullptr;
        if (callee->isDeclaration() && isBlocking(callee->getName()))
            return true;
        if (known)
            return known->waits;
        return reasons.count(callee) || isOfAnotherLibrary(*callee) ||
               (isAddressTaken && isForeign(call));
    }
    return isAddressTaken || hasOtherLibraries;
}

bool Calls::findWaitingCall(Function &function)
{
    for (Instruction &instruction : instructions(function)) {
        const auto *call = dyn_cast<CallBase>(&instruction);
        if (!call || !waits(*call))
            continue;
        const Function *callee = calleeOf(*call);
        reasons[&function] = callee ? callee : &function;
        order.insert(&function);
        return true;
    }
    return false;
}

bool isStartRoutine(const CallBase &call, const Use &use)
{
    const Function *callee = calleeOf(call);
    if (!callee || !call.isArgOperand(&use))
        return false;
    const unsigned i = call.getArgOperandNo(&use);
    return (callee->getName() == "gs_cc_pthread_create" && i == 2) ||
           (callee->getName() == "gs_cc_thrd_create" && i == 1);
}

void Calls::noteAddresses(const Function &function)
{
    for (const Use &use : function.uses()) {
        const auto *call = dyn_cast<CallBase>(use.getUser());
        if (!takesAddress(use) || (call && isStartRoutine(*call, use)))
            continue;
        isAddressTaken = true;
        isVariadicAddressTaken |= function.isVarArg();
    }
}

// The compiler's own setjmp does not say so.
static bool returnsTwice(const CallInst &call)
{
    return call.hasFnAttr(Attribute::ReturnsTwice) ||
           call.getIntrinsicID() == Intrinsic::eh_sjlj_setjmp;
}

// The variables of one that asks where its stack is are there, and not on the heap.
static bool asksForStack(const CallInst &call)
{
    const Function *callee = call.getCalledFunction();
    return callee && (callee->getName() == "pthread_getattr_np" ||
                      callee->getName() == "gs_cc_pthread_getattr_np");
}

static const char *obstacleIn(const Instruction &instruction)
{
    if (const auto *variable = dyn_cast<AllocaInst>(&instruction)) {
        if (!variable->isStaticAlloca())
            return "its frame has no constant size";
        return variable->getAlign() > Align(16) ? "its frame needs an alignment" : nullptr;
    }
    if (isa<IndirectBrInst>(instruction) || isa<CallBrInst>(instruction))
        return "it jumps to computed labels";
    if (isa<InvokeInst>(instruction))
        return "it handles exceptions";
    const auto *call = dyn_cast<CallInst>(&instruction);
    if (call && returnsTwice(*call))
        return "it calls setjmp";
    if (call && asksForStack(*call))
        return "it asks for the stack of a thread";
    return call && call->isMustTailCall() ? "it must end in a tail call" : nullptr;
}

void Calls::findObstacle(Function &function, bool hasStack)
{
    const char *obstacle = function.isVarArg() ? "it is variadic" : nullptr;
    if (hasStack && (function.getName() == ProgramMain || function.getName() == StartOfMain))
        obstacle = "it is the first thread, which has one";
    // The jumps may be gone, and the labels be left.
    if (any_of(function, [](const BasicBlock &block) { return block.hasAddressTaken(); }))
        obstacle = "it jumps to computed labels";
    for (const Instruction &instruction : instructions(function))
        if (!obstacle)
            obstacle = obstacleIn(instruction);
    if (obstacle)
        obstacles[&function] = obstacle;
}

// What only functions on stacks call is never called elsewhere.
void Calls::findUnused()
{
    SetVector<const Function *> used;
    for (const Function *function : order)
        if (isConverted(*function) &&
            (!function->hasLocalLinkage() || any_of(function->uses(), takesAddress)))
            used.insert(function);
    for (size_t i = 0; i < used.size(); i++)
        for (const Instruction &instruction : instructions(*used[i])) {
            const auto *call = dyn_cast<CallBase>(&instruction);
            const Function *callee = call ? calleeOf(*call) : nullptr;
            if (callee && isConverted(*callee))
                used.insert(callee);
        }
    for (const Function *function : order)
        if (!obstacles.count(function) && !used.contains(function))
            obstacles[function] = "only functions on stacks call it";
}

void Calls::findPrimitives()
{
    // Functions of a stream of the program are called back on any stack.
    hasOwnStreams = hasOwnStreamsIn(module);
    hasOtherLibraries = usesOtherLibraries(module);
    for (Function &function : module) {
        const Known *known = function.isDeclaration() ? findRuntime(function.getName()) : nullptr;
        if (known && known->waits)
            reasons[&function] = nullptr;
    }
}

void Calls::analyse(bool hasStack)
{
    findPrimitives();
    for (bool hasChanged = true; hasChanged;) {
        hasChanged = false;
        for (Function &function : module) {
            if (function.isDeclaration() || reasons.count(&function) || !findWaitingCall(function))
                continue;
            noteAddresses(function);
            hasChanged = true;
        }
    }
    for (Function *function : order)
        findObstacle(*function, hasStack);
    const SmallVector<Function *, 0> found(order.begin(), order.end());
    for (Function *function : found)
        if (obstacles.count(function))
            wrap(*function);
    findUnused();
}

CallKind Calls::kindOf(const CallBase &call) const
{
    if (!waits(call))
        return CallKind::Plain;
    const Function *callee = calleeOf(call);
    if (!callee)
        return call.getFunctionType()->isVarArg() && isVariadicAddressTaken ? CallKind::OnStack
                                                                            : CallKind::Converted;
    if (callee->isDeclaration())
        return findRuntime(callee->getName()) ? CallKind::Primitive : CallKind::OnStack;
    if (callee->getFunctionType() != call.getFunctionType())
        return CallKind::OnStack;
    return isConverted(*callee) ? CallKind::Converted : CallKind::OnStack;
}

bool Calls::mayLeaveProgram(const CallBase &call) const
{
    return hasOtherLibraries && !calleeOf(call) && kindOf(call) == CallKind::Converted;
}

// ---- For reports ----

StringRef Calls::obstacleTo(const Function &function) const
{
    auto found = obstacles.find(&function);
    return found == obstacles.end() ? "" : found->second;
}

std::vector<const Function *> Calls::onStacks() const
{
    std::vector<const Function *> result;
    for (const Function *function : order)
        if (obstacles.count(function) && function->getName() != StartOfMain)
            result.push_back(function);
    return result;
}

StringRef Calls::nameOf(const Function &function)
{
    StringRef name = function.getName();
    if (name == ProgramMain)
        return "main";
    if (name == StartOfMain)
        return "start of main";
    name.consume_front(RuntimePrefix);
    return name.split(".call").first;
}

std::string Calls::chainOf(const Function &function) const
{
    std::string chain = nameOf(function).str();
    SmallPtrSet<const Function *, 8> seen;
    for (const Function *at = &function; at && seen.insert(at).second;) {
        const Function *callee = reasons.lookup(at);
        const bool isPointer = callee == at;
        if (callee)
            chain += " -> " + (isPointer ? "a function through a pointer" : nameOf(*callee).str());
        at = isPointer ? nullptr : callee;
    }
    return chain;
}

} // namespace cc
