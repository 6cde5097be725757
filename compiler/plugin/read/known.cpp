#include "compiler/plugin/read/known.h"

#include <dlfcn.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringSet.h>

namespace cc
{

namespace
{

const Known Table[] = {
    // A call on a stack of its own (stack_calls.h).
    {"__on_stack", true, 0, 0},
    {"__blocking", true, 0, 0},
    // Input and output.
    {"read", true, 1 << 1, 1 << 1},
    {"write", true, 1 << 1, 0},
    {"readv", true, 1 << 1, 0},
    {"writev", true, 1 << 1, 0},
    {"recv", true, 1 << 1, 1 << 1},
    {"send", true, 1 << 1, 0},
    {"recvfrom", true, 1 << 1 | 1 << 4 | 1 << 5, 1 << 1},
    {"sendto", true, 1 << 1 | 1 << 4, 0},
    {"recvmsg", true, 1 << 1, 0},
    {"sendmsg", true, 1 << 1, 0},
    {"__read_chk", true, 1 << 1, 1 << 1},
    {"__recv_chk", true, 1 << 1, 1 << 1},
    {"__recvfrom_chk", true, 1 << 1 | 1 << 5 | 1 << 6, 1 << 1},
    {"accept", true, 1 << 1 | 1 << 2, 0},
    {"accept4", true, 1 << 1 | 1 << 2, 0},
    {"connect", true, 1 << 1, 0},
    {"poll", true, 1 << 0, 0},
    {"__poll_chk", true, 1 << 0, 0},
    {"ppoll", true, 1 << 0 | 1 << 2 | 1 << 3, 0},
    {"select", true, 0x1e, 0},
    {"pselect", true, 0x3e, 0},
    {"epoll_wait", true, 0, 0},
    {"epoll_pwait", true, 0, 0},
    {"epoll_pwait2", true, 1 << 3 | 1 << 4, 0},
    {"recvmmsg", true, 1 << 1 | 1 << 4, 0},
    {"sendmmsg", true, 1 << 1, 0},
    {"dprintf", true, 0, 0},
    {"vdprintf", true, 0, 0},
    {"__dprintf_chk", true, 0, 0},
    {"__vdprintf_chk", true, 0, 0},
    {"eventfd_read", true, 1 << 1, 1 << 1},
    {"eventfd_write", true, 0, 0},
    {"msgsnd", true, 0, 0},
    {"msgrcv", true, 0, 0},
    {"semop", true, 0, 0},
    {"semtimedop", true, 0, 0},
    {"__futex", true, 0, 0},
    {"__system_call", true, 0, 0},
    {"sleep", true, 0, 0},
    {"usleep", true, 0, 0},
    {"nanosleep", true, 1 << 0 | 1 << 1, 0},
    {"clock_nanosleep", true, 1 << 2 | 1 << 3, 0},
    {"getaddrinfo", true, 0, 0},
    {"pause", true, 0, 0},
    {"sigwait", true, 0, 0},
    {"sigwaitinfo", true, 0, 0},
    {"sigtimedwait", true, 0, 0},
    {"sigsuspend", true, 0, 0},
    {"__waiting_loop", true, 0, 0},
    {"flock", true, 0, 0},
    {"__lock_record", true, 0, 0},
    {"fork", true, 0, 0},
    {"vfork", true, 0, 0},
    {"daemon", true, 0, 0},
    {"signal", false, 0, 0},
    {"__sysv_signal", false, 0, 0},
    {"raise", false, 0, 0},
    {"longjmp", false, 0, 0},
    {"_longjmp", false, 0, 0},
    {"siglongjmp", false, 0, 0},
    {"__longjmp_chk", false, 0, 0},
    {"sigaction", false, 1 << 1 | 1 << 2, 0},
    {"sigaltstack", false, 1 << 0 | 1 << 1, 0},
    {"sigprocmask", false, 1 << 1 | 1 << 2, 0},
    {"pthread_sigmask", false, 1 << 1 | 1 << 2, 0},
    {"sigpending", false, 1 << 0, 1 << 0},
    // Descriptors.
    {"open", true, 1 << 0, 0},
    {"open64", true, 1 << 0, 0},
    {"openat", true, 1 << 1, 0},
    {"openat64", true, 1 << 1, 0},
    {"dlopen", true, 1 << 0, 0},
    {"dlclose", true, 0, 0},
    {"fopen", true, 1 << 0, 0},
    {"fopen64", true, 1 << 0, 0},
    {"popen", false, 0, 0},
    {"posix_spawn", false, 0, 0},
    {"posix_spawnp", false, 0, 0},
    {"execve", false, 0, 0},
    {"execv", false, 0, 0},
    {"execvpe", false, 0, 0},
    {"execvp", false, 0, 0},
    {"fexecve", false, 0, 0},
    {"execveat", false, 0, 0},
    {"execl", false, 0, 0},
    {"execle", false, 0, 0},
    {"execlp", false, 0, 0},
    {"system", true, 0, 0},
    {"eventfd", false, 0, 0},
    {"timerfd_create", false, 0, 0},
    {"signalfd", false, 1 << 1, 0},
    {"inotify_init", false, 0, 0},
    {"inotify_init1", false, 0, 0},
    {"memfd_create", false, 1 << 0, 0},
    {"creat", true, 1 << 0, 0},
    {"creat64", true, 1 << 0, 0},
    {"mq_open", false, 1 << 0, 0},
    {"mq_close", false, 0, 0},
    {"mq_notify", false, 0, 0},
    {"timer_create", false, 0, 0},
    {"aio_read", false, 0, 0},
    {"aio_write", false, 0, 0},
    {"epoll_create", false, 0, 0},
    {"epoll_create1", false, 0, 0},
    {"close", true, 0, 0},
    {"close_range", false, 0, 0},
    {"closefrom", false, 0, 0},
    {"dup", false, 0, 0},
    {"dup2", false, 0, 0},
    {"dup3", false, 0, 0},
    {"fcntl", false, 1 << 2, 0},
    {"fcntl64", false, 1 << 2, 0},
    {"ioctl", false, 1 << 2, 0},
    {"pipe", false, 1 << 0, 1 << 0},
    {"pipe2", false, 1 << 0, 1 << 0},
    {"setsockopt", false, 1 << 3, 0},
    {"socket", false, 0, 0},
    {"socketpair", false, 1 << 3, 1 << 3},
    {"flockfile", true, 0, 0},
    {"ftrylockfile", false, 0, 0},
    {"funlockfile", false, 0, 0},
    {"__reading", true, 0, 0},
    {"__writing", true, 0, 0},
    // Threads.
    {"pthread_create", false, 1 << 0 | 1 << 1, 1 << 0},
    {"pthread_join", true, 1 << 1, 1 << 1},
    {"pthread_tryjoin_np", false, 1 << 1, 1 << 1},
    {"pthread_clockjoin_np", true, 1 << 1 | 1 << 3, 1 << 1},
    {"pthread_timedjoin_np", true, 1 << 1 | 1 << 2, 1 << 1},
    {"pthread_detach", false, 0, 0},
    {"pthread_exit", true, 0, 0},
    {"pthread_self", false, 0, 0},
    {"pthread_equal", false, 0, 0},
    {"pthread_kill", false, 0, 0},
    {"pthread_sigqueue", false, 0, 0},
    {"pthread_setschedprio", false, 0, 0},
    {"pthread_getcpuclockid", false, 1 << 1, 0},
    {"pthread_yield", true, 0, 0},
    {"sched_yield", true, 0, 0},
    {"pthread_setname_np", false, 1 << 1, 0},
    {"pthread_getname_np", false, 1 << 1, 0},
    {"pthread_getattr_np", false, 1 << 1, 0},
    {"pthread_setschedparam", false, 1 << 2, 0},
    {"pthread_getschedparam", false, 1 << 1 | 1 << 2, 0},
    {"pthread_setaffinity_np", false, 1 << 2, 0},
    {"pthread_getaffinity_np", false, 1 << 2, 0},
    {"pthread_setattr_default_np", false, 1 << 0, 0},
    {"pthread_getattr_default_np", false, 1 << 0, 0},
    {"sched_setaffinity", false, 1 << 2, 0},
    {"sched_getaffinity", false, 1 << 2, 0},
    {"sched_setscheduler", false, 1 << 2, 0},
    {"sched_setparam", false, 1 << 1, 0},
    {"sched_getscheduler", false, 0, 0},
    {"sched_getparam", false, 1 << 1, 0},
    {"pthread_cancel", true, 0, 0},
    {"pthread_testcancel", true, 0, 0},
    {"pthread_setcancelstate", true, 1 << 1, 0},
    {"pthread_setcanceltype", true, 1 << 1, 0},
    {"_pthread_cleanup_push", false, 0, 0},
    {"_pthread_cleanup_pop", true, 0, 0},
    // Synchronisation.
    {"pthread_mutex_init", false, 1 << 1, 0},
    {"pthread_mutex_destroy", false, 0, 0},
    {"pthread_mutex_lock", true, 0, 0},
    {"pthread_mutex_trylock", false, 0, 0},
    {"pthread_mutex_consistent", false, 0, 0},
    {"pthread_mutex_timedlock", true, 1 << 1, 0},
    {"pthread_mutex_clocklock", true, 1 << 2, 0},
    {"pthread_mutex_unlock", false, 0, 0},
    {"pthread_mutex_getprioceiling", false, 1 << 1, 1 << 1},
    {"pthread_mutex_setprioceiling", true, 1 << 2, 1 << 2},
    {"pthread_cond_init", false, 1 << 1, 0},
    {"pthread_cond_destroy", false, 0, 0},
    {"pthread_cond_wait", true, 0, 0},
    {"pthread_cond_timedwait", true, 1 << 2, 0},
    {"pthread_cond_clockwait", true, 1 << 3, 0},
    {"pthread_cond_signal", false, 0, 0},
    {"pthread_cond_broadcast", false, 0, 0},
    {"pthread_rwlock_init", false, 1 << 1, 0},
    {"pthread_rwlock_destroy", false, 0, 0},
    {"pthread_rwlock_rdlock", true, 0, 0},
    {"pthread_rwlock_tryrdlock", false, 0, 0},
    {"pthread_rwlock_timedrdlock", true, 1 << 1, 0},
    {"pthread_rwlock_wrlock", true, 0, 0},
    {"pthread_rwlock_trywrlock", false, 0, 0},
    {"pthread_rwlock_timedwrlock", true, 1 << 1, 0},
    {"pthread_rwlock_clockrdlock", true, 1 << 2, 0},
    {"pthread_rwlock_clockwrlock", true, 1 << 2, 0},
    {"pthread_rwlock_unlock", false, 0, 0},
    {"pthread_barrier_init", false, 1 << 1, 0},
    {"pthread_barrier_destroy", true, 0, 0},
    {"pthread_barrier_wait", true, 0, 0},
    {"pthread_spin_init", false, 0, 0},
    {"pthread_spin_destroy", false, 0, 0},
    {"pthread_spin_lock", true, 0, 0},
    {"pthread_spin_trylock", false, 0, 0},
    {"pthread_spin_unlock", false, 0, 0},
    {"sem_init", false, 0, 0},
    {"sem_destroy", false, 0, 0},
    {"sem_wait", true, 0, 0},
    {"sem_trywait", false, 0, 0},
    {"sem_timedwait", true, 0, 0},
    {"sem_clockwait", true, 0, 0},
    {"sem_post", false, 0, 0},
    {"sem_getvalue", false, 1 << 1, 1 << 1},
    {"pthread_once", true, 0, 0},
    {"pthread_key_create", false, 1 << 0, 1 << 0},
    {"pthread_key_delete", false, 0, 0},
    {"pthread_getspecific", false, 0, 0},
    {"pthread_setspecific", false, 0, 0},
    // C11's names.
    {"thrd_create", false, 1 << 0, 1 << 0},
    {"thrd_join", true, 1 << 1, 1 << 1},
    {"thrd_detach", false, 0, 0},
    {"thrd_exit", true, 0, 0},
    {"thrd_current", false, 0, 0},
    {"thrd_equal", false, 0, 0},
    {"thrd_yield", true, 0, 0},
    {"thrd_sleep", true, 1 << 0 | 1 << 1, 0},
    {"mtx_init", false, 0, 0},
    {"mtx_lock", true, 0, 0},
    {"mtx_trylock", false, 0, 0},
    {"mtx_timedlock", true, 1 << 1, 0},
    {"mtx_unlock", false, 0, 0},
    {"mtx_destroy", false, 0, 0},
    {"cnd_init", false, 0, 0},
    {"cnd_wait", true, 0, 0},
    {"cnd_timedwait", true, 1 << 2, 0},
    {"cnd_signal", false, 0, 0},
    {"cnd_broadcast", false, 0, 0},
    {"cnd_destroy", false, 0, 0},
    {"call_once", true, 0, 0},
    {"tss_create", false, 1 << 0, 1 << 0},
    {"tss_delete", false, 0, 0},
    {"tss_get", false, 0, 0},
    {"tss_set", false, 0, 0},
};

// They call a function that they were given, or that was registered before.
const char *const Callers[] = {
    "bsearch",    "exit",     "ftw",      "ftw64",        "glob",       "glob64",
    "kill",       "lfind",    "lsearch",  "nftw",         "nftw64",     "on_exit",
    "qsort",      "qsort_r",  "err",      "errx",         "verr",       "verrx",
    "error",      "scandir",  "tdelete",  "scandir64",    "scandirat",  "quick_exit",
    "tdestroy",   "tfind",    "tsearch",  "twalk",        "twalk_r",    "dl_iterate_phdr",
    "argp_parse", "fts_open", "fts_read", "fts_children", "setcontext", "swapcontext",
};

// Functions of streams that the runtime has, too: they wait, and keep what they are given.
const llvm::StringRef Streams[] = {
    "fgetc",
    "getc",
    "_IO_getc",
    "getchar",
    "__uflow",
    "fgets",
    "__fgets_chk",
    "getline",
    "getdelim",
    "__getdelim",
    "fread",
    "__fread_chk",
    "fwrite",
    "fputs",
    "fputc",
    "putc",
    "_IO_putc",
    "__overflow",
    "fprintf",
    "vfprintf",
    "__fprintf_chk",
    "__vfprintf_chk",
    "fflush",
    "fclose",
    "printf",
    "vprintf",
    "__printf_chk",
    "__vprintf_chk",
    "puts",
    "putchar",
    "freopen",
    "freopen64",
    "fgetc_unlocked",
    "getc_unlocked",
    "getchar_unlocked",
    "fgets_unlocked",
    "fread_unlocked",
    "fputc_unlocked",
    "putc_unlocked",
    "putchar_unlocked",
    "fputs_unlocked",
    "fwrite_unlocked",
    "fflush_unlocked",
    "__fgets_unlocked_chk",
    "__fread_unlocked_chk",
};

// They wait in the kernel, and no descriptor tells when they are done: a kernel thread of the pool
// makes the call.
const llvm::StringRef BlockingCalls[] = {
    "gethostbyaddr",
    "gethostbyaddr_r",
    "gethostbyname",
    "gethostbyname2",
    "gethostbyname_r",
    "gethostbyname2_r",
    "getnameinfo",
    "sendfile",
    "sendfile64",
    "splice",
    "lockf",
    "pclose",
    "wait",
    "wait3",
    "wait4",
    "waitid",
    "waitpid",
    "aio_suspend",
    "gai_suspend",
    "tcdrain",
    "getpass",
    "res_query",
    "res_search",
    "res_nquery",
    "res_nsearch",
    "tee",
    "vmsplice",
    "preadv2",
    "preadv64v2",
    "pwritev2",
    "pwritev64v2",
    "mq_receive",
    "mq_timedreceive",
    "mq_send",
    "mq_timedsend",
};

// The same, with a stream.
const StreamCall StreamCalls[] = {
    {"fscanf", true, 0, 1},
    {"scanf", true, Standard, 0},
    {"vfscanf", true, 0, 1},
    {"vscanf", true, Standard, 0},
    {"__isoc99_fscanf", true, 0, 1},
    {"__isoc99_scanf", true, Standard, 0},
    {"__isoc99_vfscanf", true, 0, 1},
    {"__isoc99_vscanf", true, Standard, 0},
    // Wide characters.
    {"fgetwc", true, 0, OneCharacter},
    {"getwc", true, 0, OneCharacter},
    {"getwchar", true, Standard, OneCharacter},
    {"fgetwc_unlocked", true, 0, OneCharacter},
    {"getwc_unlocked", true, 0, OneCharacter},
    {"getwchar_unlocked", true, Standard, OneCharacter},
    {"fgetws", true, 2, NoFormat},
    {"fgetws_unlocked", true, 2, NoFormat},
    {"__fgetws_chk", true, 3, NoFormat},
    {"fwscanf", true, 0, NoFormat},
    {"wscanf", true, Standard, NoFormat},
    {"vfwscanf", true, 0, NoFormat},
    {"vwscanf", true, Standard, NoFormat},
    {"__isoc99_fwscanf", true, 0, NoFormat},
    {"__isoc99_wscanf", true, Standard, NoFormat},
    {"__isoc99_vfwscanf", true, 0, NoFormat},
    {"__isoc99_vwscanf", true, Standard, NoFormat},
    {"fputwc", false, 1, NoFormat},
    {"putwc", false, 1, NoFormat},
    {"putwchar", false, Standard, NoFormat},
    {"fputwc_unlocked", false, 1, NoFormat},
    {"putwc_unlocked", false, 1, NoFormat},
    {"putwchar_unlocked", false, Standard, NoFormat},
    {"fputws", false, 1, NoFormat},
    {"fputws_unlocked", false, 1, NoFormat},
    {"fwprintf", false, 0, NoFormat},
    {"wprintf", false, Standard, NoFormat},
    {"vfwprintf", false, 0, NoFormat},
    {"vwprintf", false, Standard, NoFormat},
    {"__fwprintf_chk", false, 0, NoFormat},
    {"__wprintf_chk", false, Standard, NoFormat},
    {"__vfwprintf_chk", false, 0, NoFormat},
    {"__vwprintf_chk", false, Standard, NoFormat},
    // Messages.
    {"perror", false, StandardError, NoFormat},
    {"psignal", false, StandardError, NoFormat},
    {"psiginfo", false, StandardError, NoFormat},
    {"herror", false, StandardError, NoFormat},
    {"warn", false, StandardError, NoFormat},
    {"warnx", false, StandardError, NoFormat},
    {"vwarn", false, StandardError, NoFormat},
    {"vwarnx", false, StandardError, NoFormat},
};

// The C library has these only in its part that is linked statically.
const llvm::StringRef Nonshared[] = {"atexit", "at_quick_exit", "pthread_atfork",
                                     "__stack_chk_fail_local"};

bool isOfLibrary(llvm::StringRef name)
{
    static void *const libraries[] = {dlopen("libc.so.6", RTLD_LAZY | RTLD_LOCAL),
                                      dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL)};
    const std::string symbol = name.str();
    return llvm::any_of(libraries,
                        [&](void *library) { return library && dlsym(library, symbol.c_str()); });
}

} // namespace

const Known *findKnown(llvm::StringRef name)
{
    static const llvm::StringMap<const Known *> map = [] {
        llvm::StringMap<const Known *> result;
        for (const Known &known : Table)
            result[known.name] = &known;
        static const Known stream = {"", true, 0, 0};
        for (llvm::StringRef name : Streams)
            result[name] = &stream;
        return result;
    }();
    return map.lookup(name);
}

const Known *findRuntime(llvm::StringRef name)
{
    return name.consume_front(RuntimePrefix) ? findKnown(name) : nullptr;
}

bool isStream(llvm::StringRef name)
{
    return llvm::is_contained(Streams, name);
}

bool isBlocking(llvm::StringRef name)
{
    return llvm::is_contained(BlockingCalls, name) || findStreamCall(name);
}

const StreamCall *findStreamCall(llvm::StringRef name)
{
    static const llvm::StringMap<const StreamCall *> map = [] {
        llvm::StringMap<const StreamCall *> result;
        for (const StreamCall &call : StreamCalls)
            result[call.name] = &call;
        return result;
    }();
    return map.lookup(name);
}

// What sanitizers add to the program calls nothing of it.
static bool isOfSanitizer(llvm::StringRef name)
{
    static const llvm::StringRef prefixes[] = {"__asan_", "__tsan_",      "__ubsan_",
                                               "__lsan_", "__sanitizer_", "__cfi_"};
    return llvm::any_of(prefixes, [&](llvm::StringRef prefix) { return name.starts_with(prefix); });
}

bool isLibraryLeaf(llvm::StringRef name)
{
    static const llvm::StringSet<> callers = [] {
        llvm::StringSet<> result;
        for (const char *caller : Callers)
            result.insert(caller);
        return result;
    }();
    if (name.starts_with("llvm.") || name.starts_with(RuntimePrefix) || isOfSanitizer(name))
        return true;
    if (callers.contains(name))
        return false;
    if (llvm::is_contained(Nonshared, name))
        return true;
    return isOfLibrary(name);
}

bool isOfOtherLibrary(llvm::StringRef name)
{
    if (name.starts_with("llvm.") || name.starts_with(RuntimePrefix) || isOfSanitizer(name))
        return false;
    return !llvm::is_contained(Nonshared, name) && !isOfLibrary(name);
}

bool mayChangeDescriptors(llvm::StringRef name)
{
    static const llvm::StringRef loaders[] = {"gs_cc_dlopen", "dlmopen", "dlsym", "dlvsym",
                                              "syscall"};
    return llvm::is_contained(loaders, name) || isOfOtherLibrary(name);
}

bool usesOtherLibraries(const llvm::Module &module)
{
    const auto isOfOther = [](const llvm::GlobalValue &value) {
        return value.isDeclaration() && !value.use_empty() && mayChangeDescriptors(value.getName());
    };
    return llvm::any_of(module, isOfOther) || llvm::any_of(module.globals(), isOfOther);
}

} // namespace cc
