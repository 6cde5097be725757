/* System calls that can neither be tried without waiting nor be polled for: a kernel thread of a
 * pool makes them while the task waits. There are as many kernel threads as calls in progress. A
 * signal for the task interrupts the call by a kick, again and again until it returns, since the
 * kick may come before the kernel thread is in the call. If no kernel thread can be created, the
 * worker makes the call. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"
#include "src/base/chaos.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>

#define KICK_AGAIN_NS (2 * GS_MILLISECOND)
#define IDLE_MAX 16u

struct job {
    struct job *next;
    struct task *task;
    long number;
    const long *arguments;
    long result;
    atomic_int tid; /* of the kernel thread in the call; -1: it has returned */
};

static struct gs_run_lock lock;
static struct job *first, **last = &first;
static unsigned idle, queued;
static uint32_t submitted; /* a futex */

static struct job *take(void)
{
    gs_run_acquire(&lock);
    struct job *job = first;
    if (job) {
        first = job->next;
        queued--;
        if (!first)
            last = &first;
    }
    gs_run_release(&lock);
    return job;
}

static void execute(struct job *job, int tid)
{
    struct task *task = job->task;
    const long *a = job->arguments;
    gs_chaos(CHAOS_CLAIM);
    atomic_store(&job->tid, tid);
    gs_chaos(CHAOS_CALL);
    job->result = gs_syscall(job->number, a[0], a[1], a[2], a[3], a[4], a[5]);
    /* The job is gone when the task sees -1. */
    gs_chaos(CHAOS_PUBLISH);
    atomic_store(&job->tid, -1);
    gs_chaos(CHAOS_WAKE);
    gs_task_wake(task, WAKE_DONE);
}

/* Returns false if enough others are idle. */
static bool wait_for_job(void)
{
    uint32_t seen = __atomic_load_n(&submitted, __ATOMIC_SEQ_CST);
    gs_run_acquire(&lock);
    bool must_end = idle >= IDLE_MAX && !first;
    bool must_wait = !first;
    idle += !must_end;
    gs_run_release(&lock);
    if (must_end)
        return false;
    if (must_wait)
        gs_syscall(SYS_futex, (long)&submitted, FUTEX_WAIT_PRIVATE, (long)seen, 0, 0, 0);
    gs_run_acquire(&lock);
    idle--;
    gs_run_release(&lock);
    return true;
}

static void work(void *unused)
{
    gs_signals mask = ~(GS_SIGNAL(KICK) | GS_SIGNAL(33));
    int tid = (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    gs_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask, 0, 0);
    do {
        struct job *job;
        while ((job = take()))
            execute(job, tid);
    } while (wait_for_job());
    (void)unused;
}

/* Returns false if a kernel thread has taken it. */
static bool withdraw(const struct job *job)
{
    gs_run_acquire(&lock);
    struct job **at = &first;
    while (*at && *at != job)
        at = &(*at)->next;
    bool is_withdrawn = *at == job;
    if (is_withdrawn) {
        *at = job->next;
        last = *at ? last : at;
        queued--;
    }
    gs_run_release(&lock);
    return is_withdrawn;
}

static int submit(struct job *job)
{
    gs_run_acquire(&lock);
    job->next = NULL;
    *last = job;
    last = &job->next;
    bool is_short = ++queued > idle;
    gs_run_release(&lock);
    if (is_short && gs_kernel_thread_start(work, NULL) && withdraw(job))
        return -EAGAIN;
    __atomic_fetch_add(&submitted, 1, __ATOMIC_SEQ_CST);
    gs_syscall(SYS_futex, (long)&submitted, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    return 0;
}

/* The call is on the stack of the task, which must not leave before it has returned. */
static void wait_for_return(struct task *task, struct job *job)
{
    bool is_interrupted = false;
    while (atomic_load(&job->tid) != -1) {
        gs_task_prepare(task, !is_interrupted);
        if (atomic_load(&job->tid) == -1) {
            atomic_store(&task->wake, WAKE_DONE);
            break;
        }
        uint64_t deadline_ns = is_interrupted ? gs_clock_now() + KICK_AGAIN_NS : GS_NEVER;
        is_interrupted |= gs_task_wait(task, deadline_ns) == -EINTR;
        int tid = atomic_load(&job->tid);
        if (is_interrupted && tid > 0)
            gs_kick(tid);
    }
}

long gs_pool_call(struct task *task, long number, const long *arguments)
{
    struct job job = {.task = task, .number = number, .arguments = arguments};
    GS_COUNT(pool_calls);
    int err = submit(&job);
    if (err && number == SYS_futex) /* it is looked at again */
        return err;
    if (err)
        return gs_or_restart(gs_syscall(number, arguments[0], arguments[1], arguments[2],
                                        arguments[3], arguments[4], arguments[5]));
    if (gs_run.explains)
        gs_explain(task, number, "waits in a kernel thread of the pool");
    wait_for_return(task, &job);
    return job.result == -EINTR ? RESTART_IF_ASKED : job.result;
}

void gs_pool_forget(void)
{
    lock = (struct gs_run_lock){0};
    first = NULL;
    last = &first;
    idle = queued = 0;
}
