/* A timer sends a signal to the kernel thread, whose handler does nothing. It is sent again and
 * again: the first one may arrive before the system call begins. The signal is a real-time signal
 * that the program does not use; it is looked for again if the program has started to use it. */
#include "base/interrupt.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int chosen;

static void do_nothing(int number)
{
    (void)number;
}

static void (*handler_of(int number))(int)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) ? SIG_IGN : action.sa_handler;
}

/* The last unused one. Returns 0 if there is none. */
static int choose(void)
{
    struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_ONSTACK};
    sigfillset(&action.sa_mask);
    for (int i = SIGRTMAX; i >= SIGRTMIN; i--)
        if (handler_of(i) == SIG_DFL)
            return sigaction(i, &action, NULL) ? 0 : i;
    return 0;
}

static int own_signal(void)
{
    pthread_mutex_lock(&mutex);
    if (!chosen || handler_of(chosen) != do_nothing)
        chosen = choose();
    int number = chosen;
    pthread_mutex_unlock(&mutex);
    return number;
}

/* Returns the timer, or -errno. */
static int start_timer(int number, uint64_t every_ns)
{
    const struct timespec every = {.tv_sec = (time_t)(every_ns / 1000000000),
                                   .tv_nsec = (long)(every_ns % 1000000000)};
    const struct itimerspec times = {.it_interval = every, .it_value = every};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = number};
    int timer;
    event.sigev_notify_thread_id = (int)gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
    long err = gs_syscall(SYS_timer_create, CLOCK_MONOTONIC, (long)&event, (long)&timer, 0, 0, 0);
    if (!err)
        err = gs_syscall(SYS_timer_settime, timer, 0, (long)&times, 0, 0, 0);
    return err ? (int)err : timer;
}

ssize_t gs_call_interrupted(gs_interrupted_fn *call, const void *argument, uint64_t after_ns)
{
    sigset_t own, before;
    int number = own_signal();
    int timer = number ? start_timer(number, after_ns) : -ENOMEM;
    if (timer < 0)
        return -ENOMEM;
    sigemptyset(&own);
    sigaddset(&own, number);
    pthread_sigmask(SIG_UNBLOCK, &own, &before);
    ssize_t n = call(argument);
    gs_syscall(SYS_timer_delete, timer, 0, 0, 0, 0, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n;
}
