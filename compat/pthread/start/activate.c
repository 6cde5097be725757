/* The start: when the program creates its first thread, the runtime begins in a kernel thread of
 * its own. The program's first thread becomes a task, and its kernel thread the receiver. */
#include "compat/pthread/locks/locks.h"
#include "compat/pthread/start/dump.h"
#include "compat/pthread/start/environment.h"
#include "compat/pthread/start/real.h"
#include "compat/pthread/threads/task.h"
#include "src/base/own_descriptors.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RUNTIME_STACK ((size_t)512 << 10)
#define COLLECTOR_STACK ((size_t)64 << 10)
#define HWCAP2_FSGSBASE_BIT 2u

struct gs_run gs_run;

/* A program with the thread sanitizer runs natively: the sanitizer would have to see all that the
 * program does, and nothing of what the runtime does. */
extern void tsan_init(void) __asm__("__tsan_init") __attribute__((weak));

/* For src/thread/schedule/asan_program.c. */
extern const char gs_run_needs_no_asan;
const char gs_run_needs_no_asan = 1;

static struct start_registers main_registers;
static uint32_t is_handed_over; /* a futex */

static void *collect(void *unused)
{
    (void)unused;
    gs_descriptors_serve();
}

/* ---- Descriptors ----
 * The program may have used up its own, or need all that are left: those of the runtime come on top
 * of its limit. */

static struct rlimit limit; /* the program's */
static bool is_raised;

static unsigned needed_descriptors(void)
{
    enum { OF_PROCESS = 8, OF_WORKER = 4 };
    return OF_PROCESS + OF_WORKER * gs_run.workers;
}

static void restore_limit(void)
{
    if (limit.rlim_cur != RLIM_INFINITY)
        gs_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, (long)&limit, 0, 0, 0);
}

/* Whether as many can be opened: each is opened before the next. */
static bool can_open(unsigned count)
{
    int fd = count ? gs_sys_eventfd(0, EFD_CLOEXEC) : -1;
    bool can = !count || (fd >= 0 && can_open(count - 1));
    if (fd >= 0)
        gs_sys_close(fd);
    return can;
}

/* Returns false if the limit cannot be raised, and too few are left. */
static bool raise_limit(void)
{
    limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    is_raised = false;
    gs_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit, 0, 0);
    if (limit.rlim_cur == RLIM_INFINITY)
        return true;
    struct rlimit raised = {limit.rlim_cur + needed_descriptors(), limit.rlim_max};
    if (raised.rlim_cur > limit.rlim_max)
        raised.rlim_cur = limit.rlim_max;
    is_raised = !gs_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, (long)&raised, 0, 0, 0) &&
                raised.rlim_cur == limit.rlim_cur + needed_descriptors();
    return is_raised || can_open(needed_descriptors());
}

/* Addresses for what the runtime begins with, of which little becomes resident. */
static bool has_memory(void)
{
    const size_t size = (size_t)32 << 20;
    long base = gs_sys_mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    return base >= 0 && !gs_sys_munmap((void *)base, size);
}

static int open_descriptors(void)
{
    gs_own_descriptors_start();
    if (is_raised && limit.rlim_cur < INT_MAX)
        gs_own_descriptors_move((int)limit.rlim_cur, (int)needed_descriptors());
    return gs_descriptors_start();
}

/* The first user thread. */
static void *begin(void *unused)
{
    const struct gs_thread_attributes collector = {
        .name = "collector", .migrates = true, .stack_size = COLLECTOR_STACK};
    while (!__atomic_load_n(&is_handed_over, __ATOMIC_ACQUIRE))
        gs_syscall(SYS_futex, (long)&is_handed_over, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    restore_limit();
    atomic_store(&gs_run.has_begun, true);
    int err = gs_thread_spawn(&collector, collect, NULL, NULL);
    if (!err)
        err = gs_task_spawn(gs_run.main_task, &main_registers);
    if (err)
        gs_report_refusal("there is no memory for the first thread");
    gs_advice_start();
    return unused;
}

static void *run_runtime(void *unused)
{
    const struct gs_threads_options options = {
        .workers = gs_run.workers, .is_silent = true, .leaves_signals = true};
    int err = gs_threads_run(&options, begin, NULL, NULL);
    if (err)
        gs_report_refusal(err == -EBUSY ? "the runtime is in use"
                                        : "the runtime cannot be started");
    return unused;
}

static void start_runtime(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    gs_signals all = ~(gs_signals)0, before;
    gs_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof before, 0, 0);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, RUNTIME_STACK);
    int err = gs_real()->pthread_create(&thread, &attributes, run_runtime, NULL);
    pthread_attr_destroy(&attributes);
    if (err)
        gs_report_refusal("a kernel thread for the runtime cannot be created");
}

/* On the receiver's stack, with its thread pointer. */
static void receive(void *unused)
{
    __atomic_store_n(&is_handed_over, 1, __ATOMIC_RELEASE);
    gs_syscall(SYS_futex, (long)&is_handed_over, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
    gs_receiver_main(unused);
}

/* The kernel would write into the thread's memory which CPU the receiver uses. */
static void leave_restartable_sequences(void *thread_pointer)
{
    enum { UNREGISTER = 1, SIGNATURE = 0x53053053, FAILED = -2, AREA = 32 };
    int *area = (int *)((char *)thread_pointer + __rseq_offset);
    if (!__rseq_size)
        return;
    gs_syscall(SYS_rseq, (long)area, AREA, UNREGISTER, SIGNATURE, 0, 0);
    area[1] = FAILED;
}

static struct task *new_main_task(void)
{
    struct task *task = gs_task_new((unsigned)gs_run.process_id);
    if (!task)
        gs_report_refusal("there is no memory for the first thread");
    __asm__ volatile("movq %%fs:0, %0" : "=r"(task->thread_pointer));
    gs_syscall(SYS_get_robust_list, 0, (long)&task->robust_list, (long)&task->robust_size, 0, 0, 0);
    gs_syscall(SYS_prctl, PR_GET_TID_ADDRESS, (long)&task->clear_tid, 0, 0, 0, 0);
    leave_restartable_sequences(task->thread_pointer);
    return task;
}

static unsigned processors(void)
{
    cpu_set_t set;
    long n = gs_syscall(SYS_sched_getaffinity, 0, sizeof set, (long)&set, 0, 0, 0);
    unsigned count = 0;
    for (long i = 0; i < n; i++)
        count += (unsigned)__builtin_popcount(((const unsigned char *)&set)[i]);
    return count ? count : 1;
}

void gs_run_activate(void)
{
    struct gs_bare_thread *receiver;
    if (gs_run.is_active || !gs_run.is_enabled)
        return;
    if (!(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE_BIT))
        gs_report_refusal("neither an emulator nor the kernel lets programs set the FS base; if "
                          "it is emulated, --no-children runs it without this library");
    gs_run.process_id = (int)gs_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    /* A thread that the C library has made otherwise: it is none of ours, and would not see us. */
    if (gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0) != gs_run.process_id)
        return;
    if (!gs_run.workers)
        gs_run.workers = processors();
    const char *reason = tsan_init        ? "the program is built with the thread sanitizer"
                         : !has_memory()  ? "no memory is left for the runtime"
                         : !raise_limit() ? "no descriptors are left for the runtime"
                                          : NULL;
    if (reason) {
        restore_limit();
        gs_run.is_enabled = false;
        gs_report_native(reason);
        return;
    }
    gs_run.main_task = new_main_task();
    if (open_descriptors() || gs_bare_thread_new(&receiver))
        gs_report_refusal("there is no memory for the runtime");
    gs_dump_start();
    gs_locks_start(gs_run.main_task);
    gs_semaphores_start();
    gs_signals_start(gs_run.main_task);
    gs_scheduling_start(gs_run.main_task);
    is_handed_over = 0;
    gs_run.is_active = true;
    start_runtime();
    gs_receiver_start(gs_run.process_id);
    main_registers = (struct start_registers){0};
    gs_run_hand_over(&main_registers, receiver->stack_top, receiver->thread_pointer, receive);
}

/* The library may also be loaded where it was not asked for: by a set-user-ID program's child. */
__attribute__((constructor)) static void start(void)
{
    if (gs_run.is_enabled)
        return;
    gs_environment_start();
    gs_wrappers_start();
    gs_dump_start_early();
    gs_run.is_enabled = true;
}
