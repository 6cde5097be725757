/* The monitor: a kernel thread that checks whether a worker is stuck, that is, has neither switched
 * nor polled its loop for a while because a thread computes or is in a system call. If something
 * waits for that worker, it reports the worker once. The workers do nothing for it but maintain
 * their usual counters; a worker that leaves the idle state wakes the monitor if it sleeps without
 * a timeout, which it does when all workers have been idle for a while.
 *
 * With several workers it also acts in the place of a stuck one: it cancels and times out mobile
 * threads, and polls the descriptors that the worker's loop watches, so that these threads can
 * resume elsewhere; and if all workers are stuck and shared threads exist, it adds an extra worker.
 * With one worker, locks and claims are not atomic: then the monitor only reads. */
#include "thread/io/descriptors.h"
#include "thread/report/backtrace.h"
#include "thread/schedule/backlog.h"
#include "thread/schedule/thread_extra.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define STUCK_NS_DEFAULT (10 * GS_MILLISECOND)
/* Rounds in which all workers are idle before the monitor sleeps without a timeout. */
#define IDLE_ROUNDS 10u
/* While a worker is stuck, the pause after a round is stuck_ns / 2 and this many times as long as
 * the round has taken, but at most PAUSE_MAX. */
#define PAUSE_FACTOR 8u
#define PAUSE_MAX (100 * GS_MILLISECOND)
/* Counting what waits for a stuck worker takes time for each thread and each descriptor: the next
 * count begins after this many times the CPU time of the last one at the earliest. While the
 * monitor waits for a CPU, it disturbs nobody. */
#define COUNT_PAUSE_FACTOR 50u

static pthread_t kernel_thread;
static bool is_started;
static atomic_bool is_ending;
static atomic_uint wake_count; /* a futex: incremented to end a sleep */
static uint64_t stuck_ns;
static uint64_t next_count_ns;

/* ---- Sleeping ---- */

void gs_monitor_wake(void)
{
    atomic_fetch_add(&wake_count, 1);
    gs_syscall(SYS_futex, (long)&wake_count, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
}

/* Sleep until wake_count differs from `seen`, or for ns. */
static void sleep_for(unsigned seen, uint64_t ns)
{
    struct timespec timeout = {(time_t)(ns / GS_SECOND), (long)(ns % GS_SECOND)};
    const struct timespec *until = ns == GS_NEVER ? NULL : &timeout;
    gs_syscall(SYS_futex, (long)&wake_count, FUTEX_WAIT_PRIVATE, seen, (long)until, 0, 0);
}

static bool are_all_idle(void)
{
    for (unsigned i = 0; i < gs_runtime.worker_count; i++)
        if (!atomic_load(&gs_runtime.workers[i]->is_idle))
            return false;
    return true;
}

/* (tests/model/monitor_sleep.pml) Sequentially consistent: this function sets is_monitor_asleep and
 * reads the state of the workers afterwards; a worker clears is_idle and reads is_monitor_asleep
 * afterwards. Both use an exchange, like the wake-up of a loop. */
static void sleep_until_woken(void)
{
    unsigned seen = atomic_load(&wake_count);
    atomic_exchange(&gs_runtime.is_monitor_asleep, true);
    if (are_all_idle() && !atomic_load(&is_ending))
        sleep_for(seen, GS_NEVER);
    atomic_store(&gs_runtime.is_monitor_asleep, false);
}

/* ---- Observing a worker ---- */

/* The counters belong to the worker: what is read may be out of date, but changes if the worker
 * makes progress. */
NOT_FOR_TSAN static struct snapshot take_snapshot(struct worker *worker)
{
    return (struct snapshot){
        .switches = count_read(&worker->switches),
        .polls = count_read(&worker->polls),
        .current = *(struct gs_thread *volatile *)&worker->current,
        .countdown = *(volatile int *)&worker->countdown,
    };
}

static bool is_same(const struct snapshot *a, const struct snapshot *b)
{
    return a->switches == b->switches && a->polls == b->polls && a->current == b->current &&
           a->countdown == b->countdown;
}

static uint64_t read_clock(clockid_t id)
{
    struct timespec time = {0};
    gs_syscall(SYS_clock_gettime, (long)id, (long)&time, 0, 0, 0, 0);
    return (uint64_t)time.tv_sec * GS_SECOND + (uint64_t)time.tv_nsec;
}

static uint64_t cpu_time(const struct worker *worker)
{
    /* The clock ID of the CPU time of a kernel thread, as the kernel encodes it. */
    unsigned id = (~(unsigned)atomic_load(&worker->tid) << 3) | 6;
    return read_clock((clockid_t)id);
}

/* Update the observation. Returns whether the worker is stuck now. since_ns is read after the
 * snapshot: this kernel thread may have been preempted since now_ns. */
static bool is_stuck_now(struct worker *worker, uint64_t now_ns)
{
    struct observation *observation = &worker->observation;
    struct snapshot snapshot = take_snapshot(worker);
    if (!snapshot.current || !is_same(&snapshot, &observation->snapshot)) {
        *observation = (struct observation){.snapshot = snapshot, .since_ns = gs_clock_now()};
        observation->cpu_ns = snapshot.current ? cpu_time(worker) : 0;
        return false;
    }
    return now_ns - observation->since_ns >= stuck_ns;
}

/* ---- Reporting ---- */

/* Describe what the worker is doing. Returns false if it only waits for a CPU. */
static bool describe(const struct worker *worker, char *ret_text, size_t size)
{
    bool is_in_call = gs_worker_activity(worker, ret_text, size);
    return is_in_call || cpu_time(worker) - worker->observation.cpu_ns >= stuck_ns;
}

/* The thread may end in the meantime, and its memory be reused or, if its stack is the program's
 * own, be unmapped. So the kernel copies the name, which can fail; and the caller compares the
 * snapshot again afterwards. */
static bool copy(void *to, const void *from, size_t size)
{
    const struct iovec into = {.iov_base = to, .iov_len = size},
                       out_of = {.iov_base = (void *)from, .iov_len = size};
    long n = gs_syscall(SYS_process_vm_readv, getpid(), (long)&into, 1, (long)&out_of, 1, 0);
    return n == (long)size;
}

/* The name of a thread, or the function that it runs. */
static void copy_label(const struct gs_thread *thread, char ret_label[LABEL_SIZE])
{
    struct gs_thread block;
    struct thread_extra extra = {.name = ""};
    const void *function = NULL;
    if (copy(&block, thread, sizeof block)) {
        uintptr_t at = gs_report_function_at(&block);
        if (block.extra && !copy(extra.name, block.extra->name, sizeof extra.name))
            extra.name[0] = 0;
        if (at && !copy(&function, (const void *)at, sizeof function))
            function = NULL;
    }
    extra.name[sizeof extra.name - 1] = 0;
    gs_symbols_open(false);
    gs_report_label(extra.name, function, ret_label);
    gs_symbols_close();
}

/* Report that the worker is stuck. Returns false if no report was written; the next round tries
 * again. */
static bool report_stuck(struct worker *worker, uint64_t now_ns, const struct backlog *backlog)
{
    char activity[64], label[LABEL_SIZE], waiting[160], line[360];
    if (!describe(worker, activity, sizeof activity))
        return false;
    gs_backlog_describe(backlog, waiting, sizeof waiting);
    copy_label(worker->observation.snapshot.current, label);
    struct snapshot now = take_snapshot(worker);
    if (!is_same(&now, &worker->observation.snapshot))
        return false;
    double ms = (double)(now_ns - worker->observation.since_ns) / 1e6;
    int n = snprintf(line, sizeof line,
                     "stuck: thread \"%s\" has been %s for %.1f ms while %s on worker %u\n", label,
                     activity, ms, waiting, worker->index + 1);
    (void)gs_sys_write(gs_report_fd(), line, (size_t)n);
    return true;
}

/* Report the worker if something waits for it. expired: mobile threads that waited on it, and were
 * timed out by the caller. */
static void report_if_needed(struct worker *worker, uint64_t now_ns, unsigned expired)
{
    struct backlog backlog;
    if (worker->observation.is_reported || gs_report_fd() < 0 || now_ns < next_count_ns)
        return;
    uint64_t start_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
    gs_backlog_count(worker, gs_clock_now(), &backlog);
    uint64_t taken_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) - start_ns;
    next_count_ns = gs_clock_now() + COUNT_PAUSE_FACTOR * taken_ns;
    backlog.deadlines += expired;
    if (!gs_backlog_is_empty(&backlog))
        worker->observation.is_reported = report_stuck(worker, now_ns, &backlog);
}

/* ---- Helping ---- */

/* Perform the worker's duties towards mobile threads. Returns how many were timed out. */
static unsigned help_stuck(struct worker *worker, uint64_t now_ns)
{
    gs_chaos(CHAOS_STEAL);
    gs_cancels_deliver_for_stuck(worker);
    return gs_deadlines_expire_for_stuck(worker, now_ns);
}

/* Returns the number of stuck workers. */
static unsigned check_workers(uint64_t now_ns)
{
    unsigned stuck_workers = 0;
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        struct worker *worker = gs_runtime.workers[i];
        bool is_stuck = is_stuck_now(worker, now_ns);
        /* Relaxed: nobody else stores it, and it publishes nothing. */
        bool was_stuck = atomic_load_explicit(&worker->is_stuck, memory_order_relaxed);
        atomic_store_explicit(&worker->is_stuck, is_stuck, memory_order_relaxed);
        if (is_stuck && !was_stuck)
            count_add(&worker->stuck_count, 1);
        stuck_workers += is_stuck;
    }
    atomic_store_explicit(&gs_runtime.is_any_stuck, stuck_workers > 0, memory_order_relaxed);
    for (unsigned i = 0; stuck_workers && i < gs_runtime.worker_count; i++) {
        struct worker *worker = gs_runtime.workers[i];
        if (!atomic_load(&worker->is_stuck))
            continue;
        unsigned expired = gs_runtime.is_multi ? help_stuck(worker, now_ns) : 0;
        report_if_needed(worker, now_ns, expired);
    }
    return stuck_workers;
}

/* Enable one more extra worker: an existing one, or a new one. */
static void add_extra_worker(void)
{
    unsigned index = gs_runtime.options.workers + atomic_load(&gs_runtime.enabled_extra_workers);
    if (!gs_runtime.workers[index] && gs_worker_new(index, &gs_runtime.workers[index]))
        return;
    /* It must be allowed to steal before it checks for the first time. */
    atomic_fetch_add(&gs_runtime.enabled_extra_workers, 1);
    if (index < gs_runtime.worker_count) {
        gs_loop_wake(gs_runtime.workers[index]->loop);
        return;
    }
    gs_runtime.worker_count = index + 1;
    if (!gs_worker_start(gs_runtime.workers[index]))
        return;
    atomic_fetch_sub(&gs_runtime.enabled_extra_workers, 1);
    /* The other workers may have become idle, none of them being the last: the first one checks
     * again. */
    gs_runtime.worker_count = index;
    gs_loop_wake(gs_runtime.workers[0]->loop);
}

static void adjust_extra_workers(unsigned stuck_workers)
{
    unsigned enabled = atomic_load(&gs_runtime.enabled_extra_workers), shared = 0;
    if (stuck_workers < enabled) {
        atomic_store(&gs_runtime.enabled_extra_workers, stuck_workers);
        return;
    }
    for (unsigned i = 0; i < gs_runtime.worker_count; i++)
        shared += atomic_load(&gs_runtime.workers[i]->shared.count);
    if (shared && stuck_workers >= gs_runtime.options.workers + enabled &&
        enabled < EXTRA_WORKERS_MAX)
        add_extra_worker();
}

/* Check all workers, and help those that are stuck. Returns the time until the next round. */
static uint64_t play_round(void)
{
    uint64_t start_ns = gs_clock_now(), pause_ns = stuck_ns / 2;
    unsigned stuck_workers = check_workers(start_ns);
    if (stuck_workers && gs_runtime.is_multi)
        gs_descriptors_poll_stuck();
    if (stuck_workers)
        pause_ns += PAUSE_FACTOR * (gs_clock_now() - start_ns);
    if (gs_runtime.is_multi)
        adjust_extra_workers(stuck_workers);
    return pause_ns < PAUSE_MAX ? pause_ns : PAUSE_MAX;
}

static void *monitor(void *unused)
{
    unsigned idle_rounds = 0;
    (void)unused;
    while (!atomic_load(&is_ending)) {
        unsigned seen = atomic_load(&wake_count);
        uint64_t pause_ns = play_round();
        idle_rounds = are_all_idle() ? idle_rounds + 1 : 0;
        if (idle_rounds >= IDLE_ROUNDS)
            sleep_until_woken();
        else if (!atomic_load(&is_ending))
            sleep_for(seen, pause_ns);
    }
    return NULL;
}

/* With one worker nothing but reports depends on the monitor: the run can do without it. */
int gs_monitor_start(void)
{
    stuck_ns = gs_runtime.options.stuck_ns ? gs_runtime.options.stuck_ns : STUCK_NS_DEFAULT;
    next_count_ns = 0;
    if (stuck_ns == GS_NEVER)
        return 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = -pthread_create(&kernel_thread, NULL, monitor, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    is_started = !err;
    return gs_runtime.is_multi ? err : 0;
}

void gs_monitor_after_fork(void)
{
    is_started = false;
    atomic_store(&gs_runtime.is_monitor_asleep, false);
}

void gs_monitor_stop(void)
{
    if (!is_started)
        return;
    atomic_store(&is_ending, true);
    gs_monitor_wake();
    pthread_join(kernel_thread, NULL);
    atomic_store(&is_ending, false);
    is_started = false;
}
