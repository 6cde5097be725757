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
static int given_up; /* so many of the last ones have no timer: emulators lack some */

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
    for (int i = SIGRTMAX - given_up; i >= SIGRTMIN; i--)
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

static void give_up(int number)
{
    pthread_mutex_lock(&mutex);
    if (number == chosen) {
        signal(number, SIG_DFL);
        given_up = SIGRTMAX - number + 1;
        chosen = 0;
    }
    pthread_mutex_unlock(&mutex);
}

/* Returns the timer, or -errno. */
static int start_timer_with(int number, uint64_t every_ns)
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

/* Returns the timer, or -errno; and the signal that it sends. */
static int start_timer(uint64_t every_ns, int *ret_number)
{
    int timer = -EINVAL;
    while (timer == -EINVAL && (*ret_number = own_signal())) {
        timer = start_timer_with(*ret_number, every_ns);
        if (timer == -EINVAL)
            give_up(*ret_number);
    }
    return timer;
}

ssize_t gs_call_interrupted(gs_interrupted_fn *call, const void *argument, uint64_t after_ns)
{
    sigset_t own, before;
    int number, timer = start_timer(after_ns, &number);
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
