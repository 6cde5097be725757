/* Timers for a thread (SIGEV_THREAD_ID): the kernel's is for the receiver, to which it sends a
 * kick; that is passed on as the signal that the program wants, to the task.
 *
 * A timer may have sent a signal before it is set or deleted: the handler is called before that
 * call returns, as natively, where the first thread takes the signals of the process. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/threads/task.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

struct timer {
    struct timer *next;
    int id;     /* the kernel's */
    int cookie; /* the value of the kernel's: a signal may come when the record is freed */
    unsigned tid;
    int number;
    union sigval value;
};

/* What the value of a kernel's timer of ours has above the cookie: no pointer has these bits. */
#define MARK ((uintptr_t)0x67735469 << 32)

static struct gs_run_lock lock;
static struct timer *timers;
static int last_cookie;

static const struct timer *find(int cookie)
{
    const struct timer *timer = timers;
    while (timer && timer->cookie != cookie)
        timer = timer->next;
    return timer;
}

static long create(const long *arguments, const struct sigevent *event)
{
    struct sigevent ours = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = KICK};
    struct timer *timer = calloc(1, sizeof *timer);
    if (!timer)
        return -EAGAIN;
    timer->tid = (unsigned)event->_sigev_un._tid;
    timer->number = event->sigev_signo;
    timer->value = event->sigev_value;
    gs_run_acquire(&lock);
    timer->cookie = ++last_cookie;
    gs_run_release(&lock);
    ours.sigev_value.sival_ptr = (void *)(MARK | (unsigned)timer->cookie);
    ours._sigev_un._tid = gs_run.process_id;
    long err = gs_syscall(SYS_timer_create, arguments[0], (long)&ours, (long)&timer->id, 0, 0, 0);
    if (!err)
        err = gs_run_copy((void *)arguments[2], &timer->id, sizeof timer->id);
    if (err) {
        free(timer);
        return err;
    }
    gs_run_acquire(&lock);
    timer->next = timers;
    timers = timer;
    gs_run_release(&lock);
    return 0;
}

long gs_call_timer_create(struct task *task, const long *arguments, ucontext_t *context)
{
    struct sigevent event;
    (void)task, (void)context;
    bool is_for_thread = arguments[1] &&
                         !gs_run_copy(&event, (const void *)arguments[1], sizeof event) &&
                         event.sigev_notify == SIGEV_THREAD_ID;
    if (!is_for_thread)
        return gs_syscall(SYS_timer_create, arguments[0], arguments[1], arguments[2], 0, 0, 0);
    gs_run_acquire(&gs_tasks_lock);
    bool is_valid = gs_task_find((unsigned)event._sigev_un._tid) && event.sigev_signo > 0 &&
                    event.sigev_signo <= SIGNALS;
    gs_run_release(&gs_tasks_lock);
    return is_valid ? create(arguments, &event) : -EINVAL;
}

long gs_call_timer_delete(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    long err = gs_syscall(SYS_timer_delete, arguments[0], 0, 0, 0, 0, 0);
    if (err)
        return err;
    gs_signals_settle(task);
    gs_run_acquire(&lock);
    struct timer **at = &timers;
    while (*at && (*at)->id != (int)arguments[0])
        at = &(*at)->next;
    struct timer *timer = *at;
    if (timer)
        *at = timer->next;
    gs_run_release(&lock);
    free(timer);
    return 0;
}

static long set(struct task *task, long number, const long *arguments)
{
    long result = gs_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], 0, 0);
    if (result >= 0)
        gs_signals_settle(task);
    return result;
}

long gs_call_timer_settime(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    return set(task, SYS_timer_settime, arguments);
}

long gs_call_setitimer(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    return set(task, SYS_setitimer, arguments);
}

long gs_call_alarm(struct task *task, const long *arguments, ucontext_t *context)
{
    (void)context;
    return set(task, SYS_alarm, arguments);
}

/* On the receiver. Returns false if it is a timer of the program with this signal. */
bool gs_timer_expired(const siginfo_t *kick)
{
    siginfo_t info = *kick;
    unsigned tid = 0;
    uintptr_t value = (uintptr_t)kick->si_value.sival_ptr;
    if (value >> 32 != MARK >> 32)
        return false;
    gs_run_acquire(&lock);
    const struct timer *timer = find((int)(unsigned)value);
    if (timer) {
        tid = timer->tid;
        info.si_signo = timer->number;
        info.si_value = timer->value;
    }
    gs_run_release(&lock);
    gs_run_acquire(&gs_tasks_lock);
    struct task *task = tid ? gs_task_find(tid) : NULL;
    if (task)
        gs_signal_task(task, info.si_signo, &info);
    gs_run_release(&gs_tasks_lock);
    return true;
}

/* A child has none. */
void gs_timers_forget(void)
{
    lock = (struct gs_run_lock){0};
    timers = NULL;
}
