#include "compiler/plugin/read/runtime_names.h"
#include "compiler/plugin/decide/calls.h"
#include "compiler/plugin/read/cancellation_points.h"
#include "compiler/plugin/read/known.h"
#include "compiler/plugin/read/wrappers.h"

#include <fcntl.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <sys/syscall.h>

using namespace llvm;

namespace cc
{

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

// The numbers of compiler/runtime/io/system_calls.c.
static bool isWaitingNumber(uint64_t number)
{
    static const uint64_t known[] = {SYS_read,         SYS_write,
                                     SYS_readv,        SYS_writev,
                                     SYS_sendto,       SYS_sendmsg,
                                     SYS_sendmmsg,     SYS_recvfrom,
                                     SYS_recvmsg,      SYS_recvmmsg,
                                     SYS_accept,       SYS_accept4,
                                     SYS_connect,      SYS_ppoll,
                                     SYS_pselect6,     SYS_epoll_pwait,
                                     SYS_nanosleep,    SYS_clock_nanosleep,
                                     SYS_wait4,        SYS_waitid,
                                     SYS_flock,        SYS_sched_yield,
                                     SYS_msgsnd,       SYS_msgrcv,
                                     SYS_semop,        SYS_semtimedop,
                                     SYS_splice,       SYS_tee,
                                     SYS_vmsplice,     SYS_sendfile,
                                     SYS_mq_timedsend, SYS_mq_timedreceive,
#ifdef SYS_pause
                                     SYS_pause,        SYS_poll,
                                     SYS_select,       SYS_epoll_wait,
#endif
                                     SYS_io_getevents};
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

bool hasOwnStreamsIn(const Module &module)
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
    addCancellationPoints(module);
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

} // namespace cc
