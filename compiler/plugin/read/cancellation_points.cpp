#include "compiler/plugin/read/cancellation_points.h"
#include "compiler/plugin/read/known.h"
#include "compiler/plugin/read/wrappers.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

using namespace llvm;

namespace cc
{

// The functions of POSIX (XSH 2.9.5.2) that must be cancellation points, but those of streams of
// System V, which the C library does not have. The runtime makes most of the calls, and looks
// itself.
static const StringRef Required[] = {
    "accept",
    "aio_suspend",
    "clock_nanosleep",
    "close",
    "connect",
    "creat",
    "fcntl",
    "fdatasync",
    "fsync",
    "lockf",
    "mq_receive",
    "mq_send",
    "mq_timedreceive",
    "mq_timedsend",
    "msgrcv",
    "msgsnd",
    "msync",
    "nanosleep",
    "open",
    "openat",
    "pause",
    "poll",
    "pread",
    "pselect",
    "pthread_join",
    "pwrite",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "select",
    "sem_timedwait",
    "sem_wait",
    "send",
    "sendmsg",
    "sendto",
    "sigsuspend",
    "sigtimedwait",
    "sigwait",
    "sigwaitinfo",
    "sleep",
    "tcdrain",
    "wait",
    "waitid",
    "waitpid",
    "write",
    "writev",
    "cnd_timedwait",
    "cnd_wait",
    "thrd_join",
    "pthread_cond_timedwait",
    "thrd_sleep",
    "accept4",
    "ppoll",
    "pthread_cond_clockwait",
    "sem_clockwait",
    "usleep",
    "wait4",
    "pthread_cond_wait",
};

// Others that the C library has made ones: those that may be, other names of the same functions,
// and its own.
static const StringRef Others[] = {
    "pread64",      "pwrite64",        "preadv",          "preadv64",          "pwritev",
    "pwritev64",    "__pread_chk",     "__pread64_chk",   "fallocate",         "fallocate64",
    "getrandom",    "copy_file_range", "sync_file_range", "mkstemp",           "mkstemp64",
    "mkostemp",     "mkostemp64",      "mkstemps",        "mkstemps64",        "mkostemps",
    "mkostemps64",  "tmpfile",         "tmpfile64",       "open_by_handle_at", "syslog",
    "vsyslog",      "posix_openpt",    "gethostid",       "getgrgid",          "getgrgid_r",
    "getgrnam",     "getgrnam_r",      "getpwnam",        "getpwnam_r",        "getpwuid",
    "getpwuid_r",   "getservbyname",   "getservbyport",   "getprotobyname",    "getprotobynumber",
    "getnetbyname", "getnetbyaddr",
};

static bool isPlain(const Function &function)
{
    const StringRef name = function.getName();
    return function.isDeclaration() && !findKnown(name) && !isBlocking(name) && name != "fcntl" &&
           (is_contained(Required, name) || is_contained(Others, name));
}

void addCancellationPoints(Module &module)
{
    SmallVector<Function *, 8> found;
    for (Function &function : module)
        if (isPlain(function))
            found.push_back(&function);
    for (Function *function : found) {
        makeWrapper(*function, takesAddress);
        for (User *user : make_early_inc_range(function->users())) {
            auto *call = dyn_cast<CallInst>(user);
            if (!call || calleeOf(*call) != function)
                continue;
            IRBuilder<> builder(call);
            builder.CreateCall(
                module.getOrInsertFunction("pthread_testcancel", builder.getVoidTy()));
        }
    }
}

} // namespace cc
