#include "compiler/plugin/decide/departures.h"
#include "compiler/plugin/read/source_names.h"
#include "compiler/plugin/read/wrappers.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Support/raw_ostream.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

using namespace llvm;

namespace cc
{

namespace
{

constexpr char NumberOfWorker[] =
    "the number is that of a kernel thread, which several threads share";
constexpr char OfWorker[] = "it is made for the kernel thread, which several threads share";
constexpr char Blocks[] = "no other thread of its worker runs while it waits";

constexpr int Any = -1;

struct Departure {
    const char *function;
    int argument; // Any: whatever it is called with
    long value;
    const char *name, *text; // nullptr: it is named as the function is
};

const Departure departures[] = {
    {"gettid", Any, 0, nullptr, NumberOfWorker},
    {"syscall", 0, SYS_gettid, "syscall(SYS_gettid)", NumberOfWorker},
    {"syscall", 0, SYS_tgkill, "syscall(SYS_tgkill)", NumberOfWorker},
    {"syscall", 0, SYS_tkill, "syscall(SYS_tkill)", NumberOfWorker},
    {"clone", Any, 0, nullptr, "what it starts remains a kernel thread"},
    {"syscall", 0, SYS_clone, "syscall(SYS_clone)", "what it starts remains a kernel thread"},
    {"syscall", 0, SYS_clone3, "syscall(SYS_clone3)", "what it starts remains a kernel thread"},
    {"getrusage", 0, RUSAGE_THREAD, "getrusage(RUSAGE_THREAD)", OfWorker},
    {"clock_gettime", 0, CLOCK_THREAD_CPUTIME_ID, "clock_gettime(CLOCK_THREAD_CPUTIME_ID)",
     OfWorker},
    {"pthread_getcpuclockid", Any, 0, nullptr, "the clock is that of a kernel thread"},
    {"unshare", Any, 0, nullptr, OfWorker},
    {"setns", Any, 0, nullptr, OfWorker},
    {"setfsuid", Any, 0, nullptr, OfWorker},
    {"setfsgid", Any, 0, nullptr, OfWorker},
    {"setpriority", Any, 0, nullptr, OfWorker},
    {"nice", Any, 0, nullptr, OfWorker},
    {"syscall", 0, SYS_setuid, "syscall(SYS_setuid)", OfWorker},
    {"syscall", 0, SYS_setgid, "syscall(SYS_setgid)", OfWorker},
    {"syscall", 0, SYS_setreuid, "syscall(SYS_setreuid)", OfWorker},
    {"syscall", 0, SYS_setregid, "syscall(SYS_setregid)", OfWorker},
    {"syscall", 0, SYS_setresuid, "syscall(SYS_setresuid)", OfWorker},
    {"syscall", 0, SYS_setresgid, "syscall(SYS_setresgid)", OfWorker},
    {"syscall", 0, SYS_setgroups, "syscall(SYS_setgroups)", OfWorker},
    {"syscall", 0, SYS_capset, "syscall(SYS_capset)", OfWorker},
    {"syscall", 0, SYS_seccomp, "syscall(SYS_seccomp)", OfWorker},
    {"syscall", 0, SYS_ioprio_set, "syscall(SYS_ioprio_set)", OfWorker},
    {"syscall", 0, SYS_rt_sigtimedwait, "syscall(SYS_rt_sigtimedwait)", Blocks},
    {"syscall", 0, SYS_rt_sigsuspend, "syscall(SYS_rt_sigsuspend)", Blocks},
    {"syscall", 0, SYS_io_uring_enter, "syscall(SYS_io_uring_enter)", Blocks},
    {"fopencookie", Any, 0, nullptr, "no other thread of a worker runs while any stream waits"},
    {"pthread_mutexattr_setprotocol", 1, PTHREAD_PRIO_INHERIT,
     "pthread_mutexattr_setprotocol(PTHREAD_PRIO_INHERIT)",
     "the thread that has the mutex does not get the priority of those that wait"},
};

} // namespace

static bool isMade(const Departure &departure, const CallBase &call)
{
    if (departure.argument == Any)
        return true;
    const unsigned i = (unsigned)departure.argument;
    const auto *value =
        i < call.arg_size() ? dyn_cast<ConstantInt>(call.getArgOperand(i)) : nullptr;
    return value && value->getSExtValue() == departure.value;
}

static const CallBase *firstCall(const Departure &departure, const Function &function)
{
    for (const User *user : function.users()) {
        const auto *call = dyn_cast<CallBase>(user);
        if (call && calleeOf(*call) == &function && isMade(departure, *call))
            return call;
    }
    return nullptr;
}

void warnOfDepartures(const Module &module)
{
    for (const Departure &departure : departures) {
        const Function *function = module.getFunction(departure.function);
        const CallBase *call =
            function && function->isDeclaration() ? firstCall(departure, *function) : nullptr;
        if (!call)
            continue;
        const std::string place = placeOf(call->getDebugLoc());
        errs() << place << (place.empty() ? "" : ": ")
               << "warning: " << (departure.name ? departure.name : departure.function) << ": "
               << departure.text << " [-Wgossamer-departures]\n";
    }
}

} // namespace cc
