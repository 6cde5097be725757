/* The backtrace of a thread that another worker is running. Only its kernel thread knows the
 * registers, so a signal makes that follow its own frame pointers and store the backtrace:
 *
 *     IDLE -- request --> REQUESTED -- handler --> TAKEN -- handler --> DONE --> IDLE
 *                             `------- no answer in time -----------------------> IDLE
 *
 * The handler stays installed: the signal may be blocked now and be delivered much later. */
#include "thread/report/backtrace.h"

#include <gossamer/sys.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A worker that computes answers as soon as it has a CPU: how often to yield, then how many
 * milliseconds to sleep. One that does not answer is not requested again. */
#define YIELDS 200
#define SLEEPS 1000

enum { IDLE, REQUESTED, TAKEN, DONE };

static atomic_int state, signal_number;
static atomic_int requested_tid;
static const struct worker *requested_worker;
static const struct gs_thread *requested_thread;
static struct backtrace sampled;

static void on_sample(int signal, siginfo_t *info, void *context)
{
    int requested = REQUESTED;
    (void)signal, (void)info;
    if (gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0) != atomic_load(&requested_tid) ||
        !atomic_compare_exchange_strong(&state, &requested, TAKEN))
        return;
    gs_backtrace_of_sampled(requested_worker, requested_thread, context, &sampled);
    atomic_store(&state, DONE);
}

void gs_backtrace_after_fork(void)
{
    atomic_store(&state, IDLE);
}

/* Choose the last real-time signal that the program does not use. */
int gs_backtrace_signal(void)
{
    struct sigaction action;
    if (atomic_load(&signal_number))
        return atomic_load(&signal_number);
    for (int i = SIGRTMAX; i >= SIGRTMIN; i--) {
        if (sigaction(i, NULL, &action) || action.sa_handler != SIG_DFL)
            continue;
        atomic_store(&signal_number, i);
        return i;
    }
    return 0;
}

/* Returns false if the program uses the signal now. */
static bool install(void)
{
    struct sigaction action = {.sa_sigaction = on_sample,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART},
                     previous;
    int signal = gs_backtrace_signal();
    if (!signal || sigaction(signal, NULL, &previous))
        return false;
    if (previous.sa_sigaction == on_sample)
        return true;
    sigfillset(&action.sa_mask);
    return previous.sa_handler == SIG_DFL && !sigaction(signal, &action, NULL);
}

static bool wait_for_result(void)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    int requested = REQUESTED;
    for (int turn = 0; atomic_load(&state) == REQUESTED && turn < YIELDS + SLEEPS; turn++) {
        if (turn < YIELDS)
            sched_yield();
        else
            gs_syscall(SYS_nanosleep, (long)&ms, 0, 0, 0, 0, 0);
    }
    if (atomic_compare_exchange_strong(&state, &requested, IDLE))
        return false;
    while (atomic_load(&state) != DONE)
        sched_yield();
    return true;
}

/* Only one at a time: the caller has opened the symbols. A thread with thread-local storage of its
 * own is not requested. */
bool gs_backtrace_of_running(struct worker *worker, const struct gs_thread *thread,
                             struct backtrace *ret_backtrace)
{
    int tid = atomic_load(&worker->tid);
    if (GS_TSAN || worker->ignores_dumps || thread->tls_base || !install())
        return false;
    requested_worker = worker;
    requested_thread = thread;
    atomic_store(&requested_tid, tid);
    atomic_store(&state, REQUESTED);
    if (gs_syscall(SYS_tgkill, getpid(), tid, gs_backtrace_signal(), 0, 0, 0)) {
        atomic_store(&state, IDLE);
        return false;
    }
    worker->ignores_dumps = !wait_for_result();
    if (worker->ignores_dumps)
        return false;
    *ret_backtrace = sampled;
    atomic_store(&state, IDLE);
    return ret_backtrace->count;
}
