/* Calls that wait for time, or only for a signal. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <sys/syscall.h>

/* Returns 0 at the deadline, or -EINTR. */
static int sleep_until(struct task *task, uint64_t deadline_ns)
{
    int err;
    do {
        gs_task_prepare(task, true);
        err = gs_task_wait(task, deadline_ns);
    } while (!err);
    return err == -ETIMEDOUT ? 0 : err;
}

static long sleep_for(struct task *task, const struct timespec *timeout, struct timespec *ret_rest)
{
    uint64_t deadline_ns;
    int err = gs_deadline_after(timeout, &deadline_ns);
    if (err)
        return err;
    err = sleep_until(task, deadline_ns);
    if (err && ret_rest) {
        uint64_t now_ns = gs_clock_now(), rest_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        *ret_rest = (struct timespec){(time_t)(rest_ns / GS_SECOND), (long)(rest_ns % GS_SECOND)};
    }
    return err ? RESTART_NEVER : 0;
}

long gs_call_nanosleep(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    if (!arguments[0])
        return -EFAULT;
    return sleep_for(task, (const struct timespec *)arguments[0], (struct timespec *)arguments[1]);
}

/* A clock that is set meanwhile, or that counts CPU time, is waited for in the kernel. */
long gs_call_clock_nanosleep(struct task *task, const long *arguments, ucontext_t *context)
{
    clockid_t clock = (clockid_t)arguments[0];
    const struct timespec *time = (const struct timespec *)arguments[2];
    bool is_absolute = arguments[1] & TIMER_ABSTIME;
    uint64_t deadline_ns;
    (void)context;
    if (!time)
        return -EFAULT;
    if (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME &&
        clock != CLOCK_TAI)
        return gs_pool_call(task, SYS_clock_nanosleep, arguments);
    if (!is_absolute)
        return sleep_for(task, time, (struct timespec *)arguments[3]);
    int err = gs_deadline_at(clock, time, &deadline_ns);
    if (err)
        return err;
    return sleep_until(task, deadline_ns) ? RESTART_NEVER : 0;
}

long gs_call_pause(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)arguments, (void)context;
    return sleep_until(task, GS_NEVER) ? RESTART_NEVER : -EINTR;
}

/* What the task waits for may be in the hands of a worker, or a process, that the kernel has
 * stopped for this one: so some of the calls of a worker are the kernel's, too. */
long gs_call_sched_yield(struct task *task, const long *arguments, ucontext_t *context)
{
    enum { KERNELS = 64 };
    struct carrier *carrier = gs_carrier();
    (void)arguments, (void)context;
    if (GS_UNLIKELY(++carrier->yields % KERNELS == 0))
        gs_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    gs_task_yield(task);
    return 0;
}
