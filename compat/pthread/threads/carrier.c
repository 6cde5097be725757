/* Kernel threads that run tasks: how a task comes in and leaves, and how it waits. */
#include "compat/pthread/start/dump.h"
#include "compat/pthread/threads/task.h"
#include "src/base/chaos.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/resumable.h>
#include <gossamer/sys.h>
#include <string.h>
#include <sys/syscall.h>

__thread __attribute__((tls_model("initial-exec"))) struct task *gs_task;
__thread __attribute__((tls_model("initial-exec"))) volatile bool gs_task_is_inside;

#define CARRIERS 1024u
static struct carrier carriers[CARRIERS];

void gs_run_lock_slow(struct gs_run_lock *lock)
{
    unsigned turns = 0;
    do {
        while (atomic_load_explicit(&lock->is_held, memory_order_relaxed)) {
            __builtin_ia32_pause();
            /* The holder may have been preempted by the kernel. */
            if (++turns % 256 == 0)
                gs_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
        }
    } while (atomic_exchange_explicit(&lock->is_held, true, memory_order_acquire));
}

struct carrier *gs_carrier(void)
{
    return &carriers[gs_threads_worker() % CARRIERS];
}

struct carrier *gs_carrier_at(unsigned index)
{
    struct carrier *carrier = index < CARRIERS ? &carriers[index] : NULL;
    return carrier && carrier->is_attached ? carrier : NULL;
}

void gs_carrier_attach(struct task *task)
{
    struct carrier *carrier = gs_carrier();
    if (GS_UNLIKELY(!carrier->is_attached)) {
        const gs_signals mask = GS_WORKER_MASK;
        carrier->tid = (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
        gs_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask, 0, 0);
        if (gs_signal_stack_attach(carrier))
            gs_report_refusal("there is no memory for a stack of signals");
        gs_dispatch_attach(carrier);
        carrier->is_attached = true;
    }
    if (GS_UNLIKELY(carrier->processors_version != task->processors_version))
        gs_processors_apply(carrier, task);
    gs_task_count_since(task);
    atomic_store_explicit(&carrier->switches,
                          atomic_load_explicit(&carrier->switches, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&carrier->must_switch, false, memory_order_relaxed);
    if (GS_UNLIKELY(atomic_load_explicit(&carrier->has_short_turn, memory_order_relaxed) !=
                    task->computes))
        atomic_store_explicit(&carrier->has_short_turn, task->computes, memory_order_relaxed);
}

void gs_carriers_forget(void)
{
    for (unsigned i = 0; i < CARRIERS; i++)
        carriers[i] = (struct carrier){.signal_stack = carriers[i].signal_stack};
    atomic_store(&gs_run.is_ending, false);
}

void gs_carrier_stop(struct carrier *carrier)
{
    atomic_store(&carrier->is_stopped, true);
    for (;;)
        gs_syscall(SYS_pause, 0, 0, 0, 0, 0, 0);
}

/* Returns whether it may run in the program. Another kernel thread's selector is BLOCK then, and a
 * kick stops it; one that is in here stops when it leaves (try_leave). */
static bool kick_to_stop(struct carrier *carrier, int own_tid)
{
    if (!carrier->is_attached || carrier->tid == own_tid || !carrier->selector ||
        atomic_load(&carrier->is_stopped))
        return false;
    gs_kick(carrier->tid);
    return true;
}

void gs_carriers_stop(void)
{
    enum { TRIES = 500, PAUSE_NS = 100000 };
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    const int tid = (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    atomic_store(&gs_run.is_ending, true);
    for (unsigned turn = 0; turn < TRIES; turn++) {
        bool is_any = false;
        for (unsigned i = 0; i < CARRIERS; i++)
            is_any |= kick_to_stop(&carriers[i], tid);
        if (!is_any)
            return;
        gs_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
    }
}

void gs_task_enter(struct task *task)
{
    gs_task_is_inside = true;
    __asm__ volatile("" ::: "memory");
    gs_carrier()->selector = 0; /* SYSCALL_DISPATCH_FILTER_ALLOW */
    atomic_store_explicit(&task->running_on, 0, memory_order_relaxed);
}

/* Sequentially consistent: gs_signal_task makes a signal pending and reads running_on afterwards;
 * this stores running_on and then looks for pending signals. One of them sees the other. So do
 * gs_carriers_stop, which says that the process ends and then looks at the selectors, and the
 * receiver, which announces that it sleeps and then looks at the selectors, and this, which stores
 * the selector and then looks whether the receiver sleeps.
 *
 * A kick that comes between the first look for signals and the end of is_inside does nothing, since
 * it finds the task inside: hence the second look. The first one is needed, too: a signal that has
 * interrupted the system call must find the context of that call, not the one of its late kick. */
static bool try_leave(struct task *task)
{
    struct carrier *carrier = gs_carrier();
    gs_chaos(CHAOS_RETURN);
    carrier->selector = 1; /* SYSCALL_DISPATCH_FILTER_BLOCK */
    atomic_store(&task->running_on, carrier->tid);
    gs_chaos(CHAOS_PUBLISH);
    if (GS_UNLIKELY(atomic_load_explicit(&gs_run.is_ticker_asleep, memory_order_relaxed)))
        gs_receiver_wake();
    if (!gs_has_signal(task) &&
        !atomic_load_explicit(&carrier->must_switch, memory_order_relaxed) &&
        !atomic_load_explicit(&gs_run.is_ending, memory_order_relaxed)) {
        gs_chaos(CHAOS_RETURN);
        __asm__ volatile("" ::: "memory");
        gs_task_is_inside = false;
        __asm__ volatile("" ::: "memory");
        if (GS_LIKELY(!gs_has_signal(task)))
            return true;
    }
    gs_task_enter(task);
    return false;
}

/* The task was preempted: deadlines and descriptors must be looked at, too. If others have run
 * meanwhile, its next turns are shorter: it may wait for one of them without a system call. */
static void end_turn(struct task *task)
{
    const struct carrier *carrier = gs_carrier();
    unsigned before = atomic_load_explicit(&carrier->switches, memory_order_relaxed);
    gs_task_count_until(task);
    gs_thread_end_turn();
    task->computes = carrier != gs_carrier() ||
                     before != atomic_load_explicit(&carrier->switches, memory_order_relaxed);
    gs_carrier_attach(task);
}

void gs_task_leave(struct task *task, ucontext_t *context, long *result, long number)
{
    if (GS_UNLIKELY(task->side_in_hand))
        gs_descriptor_hand_on(task);
    while (GS_UNLIKELY(!try_leave(task))) {
        gs_carrier_stop_if_ending();
        if (atomic_load_explicit(&gs_carrier()->must_switch, memory_order_relaxed))
            end_turn(task);
        if (!gs_has_signal(task))
            continue;
        if (!context || gs_must_move_back(task, context)) {
            /* The kernel makes the frame that a handler needs, once this one is left. */
            int tid = gs_carrier()->tid;
            const gs_signals kick = GS_SIGNAL(KICK);
            if (context)
                gs_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&kick, 0, sizeof kick, 0, 0);
            gs_carrier()->selector = 1;
            atomic_store(&task->running_on, tid);
            gs_task_is_inside = false;
            gs_kick(tid);
            return;
        }
        gs_deliver(task, context, result, number);
        if (GS_UNLIKELY(gs_task != task))
            return; /* the handler has forked, and this is the child, which is no task */
    }
}

void gs_task_yield(struct task *task)
{
    gs_task_count_until(task);
    gs_thread_yield();
    gs_carrier_attach(task);
}

void gs_task_call_was_vain(struct task *task)
{
    enum { VAIN_MAX = 32 };
    if (GS_LIKELY(++task->vain_calls < VAIN_MAX))
        return;
    task->vain_calls = 0;
    gs_task_yield(task);
}

/* ---- Waiting ---- */

void gs_task_prepare(struct task *task, bool is_interruptible)
{
    if (GS_UNLIKELY(task->side_in_hand))
        gs_descriptor_hand_on(task);
    atomic_store(&task->wake, WAKE_NONE);
    gs_chaos(CHAOS_PUBLISH);
    atomic_store(&task->waits_for_signals, is_interruptible);
    gs_chaos(CHAOS_PARK);
    if (!is_interruptible)
        return;
    if (gs_has_signal(task) || atomic_exchange(&task->must_cancel, false))
        gs_task_wake(task, WAKE_SIGNAL);
}

int gs_task_wait(struct task *task, uint64_t deadline_ns)
{
    int err = 0;
    GS_COUNT(waits);
    gs_task_count_until(task);
    gs_wakeups_settle(gs_carrier(), true);
    task->is_waiting = true;
    task->computes = false;
    task->vain_calls = 0;
    while (!atomic_load(&task->wake) && err != -ETIMEDOUT) {
        err = gs_thread_park(deadline_ns);
        if (GS_UNLIKELY(atomic_load_explicit(&task->must_dump, memory_order_relaxed)))
            gs_dump_self(task);
    }
    task->is_waiting = false;
    gs_chaos(CHAOS_RETURN);
    unsigned wake = atomic_exchange(&task->wake, WAKE_DONE);
    atomic_store(&task->waits_for_signals, false);
    gs_carrier_attach(task);
    if (wake == WAKE_DONE)
        return 0;
    task->was_interrupted |= wake == WAKE_SIGNAL;
    return wake == WAKE_SIGNAL ? -EINTR : -ETIMEDOUT;
}

/* The task may wake by itself between the two, wait again and be woken too early: waits are loops.
 * Its memory stays. */
void gs_task_wake(struct task *task, enum wake wake)
{
    unsigned none = WAKE_NONE;
    if (atomic_compare_exchange_strong(&task->wake, &none, wake) && task != gs_task)
        gs_wakeups_unpark(task->thread);
}

/* ---- Deadlines ---- */

static bool is_valid(const struct timespec *time)
{
    return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < (long)GS_SECOND;
}

static uint64_t ns_of(const struct timespec *time)
{
    uint64_t seconds = (uint64_t)time->tv_sec;
    return seconds > UINT32_MAX ? GS_NEVER / 2 : seconds * GS_SECOND + (uint64_t)time->tv_nsec;
}

int gs_deadline_after(const struct timespec *timeout, uint64_t *ret_deadline_ns)
{
    if (timeout && !is_valid(timeout))
        return -EINVAL;
    *ret_deadline_ns = timeout ? gs_clock_now() + ns_of(timeout) : GS_NEVER;
    return 0;
}

int gs_deadline_at(clockid_t clock, const struct timespec *time, uint64_t *ret_deadline_ns)
{
    struct timespec now;
    if (!time) {
        *ret_deadline_ns = GS_NEVER;
        return 0;
    }
    if (!is_valid(time))
        return -EINVAL;
    long err = gs_syscall(SYS_clock_gettime, clock, (long)&now, 0, 0, 0, 0);
    if (err)
        return (int)err;
    uint64_t at_ns = ns_of(time), now_ns = ns_of(&now);
    *ret_deadline_ns = gs_clock_now() + (at_ns > now_ns ? at_ns - now_ns : 0);
    return 0;
}
