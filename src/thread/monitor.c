/* The monitor: a kernel thread that looks whether some worker is stuck, that is, has neither switched nor stepped its loop for a
 * while because a thread computes or sits in a system call. It says so, once, if threads wait for that worker; wakes those that
 * can go on elsewhere; and when all workers are stuck, has a spare one help. The workers do nothing for it but count, as they do
 * anyway; and one that has something to do again wakes it if it sleeps for good, which it does when nothing has run for long. */
#include "thread/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#define STUCK_NS_DEFAULT (10 * GS_MILLISECOND)
/* How often nothing must have been running before the monitor sleeps for good. */
#define QUIET_ROUNDS 10u
/* Of its time the monitor takes at most this part for looking at descriptors. */
#define RELIEF_SHARE 8u
#define PAUSE_MOST (100 * GS_MILLISECOND)

static pthread_t kernel_thread;
static bool is_started;
static atomic_bool is_ending;
static atomic_uint bell; /* a futex: rung to end a sleep */
static uint64_t stuck_ns;

/* ---- Sleeping ---- */

void gs_monitor_wake(void)
{
    atomic_fetch_add(&bell, 1);
    gs_syscall(SYS_futex, (long)&bell, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
}

/* Until the bell is not `rung` any more. */
static void sleep_for(unsigned rung, uint64_t ns)
{
    struct timespec timeout = {(time_t)(ns / GS_SECOND), (long)(ns % GS_SECOND)};
    const struct timespec *until = ns == GS_NEVER ? NULL : &timeout;
    gs_syscall(SYS_futex, (long)&bell, FUTEX_WAIT_PRIVATE, rung, (long)until, 0, 0);
}

static bool is_quiet(void)
{
    for (unsigned i = 0; i < gs_runtime.worker_count; i++)
        if (!atomic_load(&gs_runtime.workers[i]->is_idle))
            return false;
    return true;
}

/* Sequentially consistent: this says that it is asleep and looks at the workers afterwards, a worker says that it is not idle and
 * looks whether the monitor is asleep afterwards. Both exchange, as the loop's mailbox does. */
static void sleep_for_good(void)
{
    unsigned rung = atomic_load(&bell);
    atomic_exchange(&gs_runtime.is_monitor_asleep, true);
    if (is_quiet() && !atomic_load(&is_ending))
        sleep_for(rung, GS_NEVER);
    atomic_store(&gs_runtime.is_monitor_asleep, false);
}

/* ---- Looking ---- */

/* The counters are the worker's own: what is read may be out of date, but changes if the worker goes on. */
NOT_FOR_TSAN static struct sight look(struct worker *worker)
{
    return (struct sight){
        .switches = count_read(&worker->switches),
        .polls = count_read(&worker->polls),
        .current = *(struct gs_thread *volatile *)&worker->current,
        .countdown = *(volatile int *)&worker->countdown,
    };
}

static bool is_same(const struct sight *a, const struct sight *b)
{
    return a->switches == b->switches && a->polls == b->polls && a->current == b->current &&
           a->countdown == b->countdown;
}

static uint64_t processor_time(const struct worker *worker)
{
    /* The clock of a kernel thread's processor time, as the kernel numbers them. */
    unsigned id = (~(unsigned)atomic_load(&worker->kernel_id) << 3) | 6;
    struct timespec time = {0};
    gs_syscall(SYS_clock_gettime, (long)(clockid_t)id, (long)&time, 0, 0, 0, 0);
    return (uint64_t)time.tv_sec * GS_SECOND + (uint64_t)time.tv_nsec;
}

/* Whether the worker is stuck now. */
static bool look_again(struct worker *worker, uint64_t now_ns)
{
    struct watched *watched = &worker->watched;
    struct sight sight = look(worker);
    if (!sight.current || !is_same(&sight, &watched->sight)) {
        *watched = (struct watched){.sight = sight, .since_ns = now_ns};
        watched->processor_ns = sight.current ? processor_time(worker) : 0;
        return false;
    }
    return now_ns - watched->since_ns >= stuck_ns;
}

/* ---- Saying so ---- */

/* What the worker does. False: it waits for a processor. */
static bool describe(const struct worker *worker, char *ret_text, size_t size)
{
    bool is_in_call = gs_worker_call(worker, ret_text, size);
    return is_in_call || processor_time(worker) - worker->watched.processor_ns >= stuck_ns;
}

/* The thread may end meanwhile, and its memory be another's: so look again afterwards. */
NOT_FOR_TSAN static void copy_name(const struct gs_thread *thread, char ret_name[NAME_SIZE])
{
    for (unsigned i = 0; i < NAME_SIZE; i++)
        ret_name[i] = *(const volatile char *)&thread->name[i];
    ret_name[NAME_SIZE - 1] = 0;
}

/* False: there is nothing to say yet, or any more. */
static bool say(struct worker *worker, uint64_t now_ns)
{
    char doing[64], name[NAME_SIZE], line[160];
    if (gs_report_fd() < 0 || !describe(worker, doing, sizeof doing))
        return false;
    copy_name(worker->watched.sight.current, name);
    struct sight now = look(worker);
    if (!is_same(&now, &worker->watched.sight))
        return false;
    double ms = (double)(now_ns - worker->watched.since_ns) / 1e6;
    int n = snprintf(line, sizeof line,
                     "stuck: thread \"%s\" %s since %.1f ms while others wait for worker %u\n",
                     name, doing, ms, worker->index + 1);
    (void)gs_sys_write(gs_report_fd(), line, (size_t)n);
    return true;
}

/* ---- Doing something about it ---- */

static bool has_waiting(struct worker *worker)
{
    return count_read(&worker->ready) || atomic_load(&worker->inbox) ||
           atomic_load(&worker->shared.count);
}

/* Left for the worker, in their order, beneath what has come meanwhile. Both lists are last first. */
static void put_back(struct worker *worker, struct gs_policy_item *items)
{
    struct gs_policy_item *none = NULL;
    while (!atomic_compare_exchange_strong(&worker->inbox, &none, items)) {
        struct gs_policy_item *newer = atomic_exchange(&worker->inbox, NULL), **end = &newer;
        while (*end)
            end = &(*end)->next;
        *end = items;
        items = newer;
        none = NULL;
    }
    gs_loop_wake(worker->loop);
}

/* Take what can be done in the worker's place from its inbox. Should it not be stuck any more and find nothing there, then the
 * search for a deadlock is told that something arrives. */
static void sift_inbox(struct worker *worker)
{
    if (!atomic_load(&worker->inbox))
        return;
    atomic_fetch_add(&gs_runtime.arriving, 1);
    struct gs_policy_item *items = atomic_exchange(&worker->inbox, NULL), **link = &items;
    while (*link) {
        struct gs_policy_item *next = (*link)->next;
        if (gs_cancel_deliver_for(worker, gs_container_of(*link, struct runnable, item)))
            *link = next;
        else
            link = &(*link)->next;
    }
    if (items)
        put_back(worker, items);
    atomic_fetch_add(&gs_runtime.idle_epoch, 1);
    atomic_fetch_sub(&gs_runtime.arriving, 1);
}

/* Do the worker's duties towards mobile threads, and report what keeps it. */
static void relieve(struct worker *worker, uint64_t now_ns)
{
    sift_inbox(worker);
    unsigned expired = gs_deadlines_expire(worker, now_ns);
    if (!worker->watched.is_reported && (expired || has_waiting(worker)))
        worker->watched.is_reported = say(worker, now_ns);
}

/* Returns how many are stuck. */
static unsigned look_at_all(uint64_t now_ns)
{
    unsigned stuck = 0;
    for (unsigned i = 0; i < gs_runtime.worker_count; i++) {
        struct worker *worker = gs_runtime.workers[i];
        bool is_stuck = look_again(worker, now_ns);
        if (atomic_exchange(&worker->is_stuck, is_stuck) < is_stuck)
            count_add(&worker->stuck, 1);
        stuck += is_stuck;
    }
    for (unsigned i = 0; stuck && i < gs_runtime.worker_count; i++)
        if (atomic_load(&gs_runtime.workers[i]->is_stuck))
            relieve(gs_runtime.workers[i], now_ns);
    return stuck;
}

/* The next spare: one that is there already, or a new one. */
static void add_spare(void)
{
    unsigned index = gs_runtime.options.workers + atomic_load(&gs_runtime.spares);
    if (!gs_runtime.workers[index] && gs_worker_new(index, &gs_runtime.workers[index]))
        return;
    /* It may take before it looks for the first time. */
    atomic_fetch_add(&gs_runtime.spares, 1);
    if (index < gs_runtime.worker_count) {
        gs_loop_wake(gs_runtime.workers[index]->loop);
        return;
    }
    gs_runtime.worker_count = index + 1;
    if (!gs_worker_start(gs_runtime.workers[index]))
        return;
    atomic_fetch_sub(&gs_runtime.spares, 1);
    /* The others may have gone idle, each believing that it was not the last. */
    gs_runtime.worker_count = index;
    gs_loop_wake(gs_runtime.workers[0]->loop);
}

static void adjust_spares(unsigned stuck)
{
    unsigned spares = atomic_load(&gs_runtime.spares), shared = 0;
    if (stuck < spares) {
        atomic_store(&gs_runtime.spares, stuck);
        return;
    }
    for (unsigned i = 0; i < gs_runtime.worker_count; i++)
        shared += atomic_load(&gs_runtime.workers[i]->shared.count);
    if (shared && stuck >= gs_runtime.options.workers + spares && spares < SPARES_MOST)
        add_spare();
}

static void *monitor(void *unused)
{
    unsigned quiet = 0;
    (void)unused;
    while (!atomic_load(&is_ending)) {
        unsigned rung = atomic_load(&bell);
        uint64_t begun_ns = gs_clock_now(), pause_ns = stuck_ns / 2;
        unsigned stuck = look_at_all(begun_ns);
        if (stuck) {
            gs_descriptors_relieve();
            pause_ns += RELIEF_SHARE * (gs_clock_now() - begun_ns);
        }
        adjust_spares(stuck);
        quiet = is_quiet() ? quiet + 1 : 0;
        if (quiet >= QUIET_ROUNDS)
            sleep_for_good();
        else if (!atomic_load(&is_ending))
            sleep_for(rung, pause_ns < PAUSE_MOST ? pause_ns : PAUSE_MOST);
    }
    return NULL;
}

int gs_monitor_start(void)
{
    stuck_ns = gs_runtime.options.stuck_ns ? gs_runtime.options.stuck_ns : STUCK_NS_DEFAULT;
    if (!gs_runtime.is_multi || stuck_ns == GS_NEVER)
        return 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = -pthread_create(&kernel_thread, NULL, monitor, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    is_started = !err;
    return err;
}

void gs_monitor_forked(void)
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
