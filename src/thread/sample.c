/* The calls of a thread that another worker runs at this moment. Only its kernel thread can tell, so a signal has it follow its own
 * frame pointers, and note them for who asks:
 *
 *     IDLE ---ask---> ASKED ---handler---> TAKEN ---handler---> DONE ---> IDLE
 *                       `------ no answer in time ----------------------> IDLE
 *
 * The handler stays for good: the signal may still be blocked and come much later. */
#include "thread/calls.h"

#include <gossamer/sys.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A worker that computes answers as soon as it has a processor: turns to yield, then milliseconds to sleep. One that does not is
 * not asked again. */
#define YIELDS 200
#define SLEEPS 1000

enum { IDLE, ASKED, TAKEN, DONE };

static atomic_int state, number;
static atomic_int asked_kernel_id;
static const struct worker *asked_worker;
static const struct gs_thread *asked_thread;
static struct calls noted;

static void on_sample(int signal, siginfo_t *info, void *context)
{
    int asked = ASKED;
    (void)signal, (void)info;
    if (gs_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0) != atomic_load(&asked_kernel_id) ||
        !atomic_compare_exchange_strong(&state, &asked, TAKEN))
        return;
    gs_calls_of_sampled(asked_worker, asked_thread, context, &noted);
    atomic_store(&state, DONE);
}

/* A signal that the program does not use: the last of these. */
int gs_sample_signal(void)
{
    struct sigaction action;
    if (atomic_load(&number))
        return atomic_load(&number);
    for (int i = SIGRTMAX; i >= SIGRTMIN; i--) {
        if (sigaction(i, NULL, &action) || action.sa_handler != SIG_DFL)
            continue;
        atomic_store(&number, i);
        return i;
    }
    return 0;
}

/* False: the program has taken the signal by now. */
static bool install(void)
{
    struct sigaction action = {.sa_sigaction = on_sample,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART},
                     former;
    int signal = gs_sample_signal();
    if (!signal || sigaction(signal, NULL, &former))
        return false;
    if (former.sa_sigaction == on_sample)
        return true;
    sigfillset(&action.sa_mask);
    return former.sa_handler == SIG_DFL && !sigaction(signal, &action, NULL);
}

static bool wait_for_answer(void)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    int asked = ASKED;
    for (int turn = 0; atomic_load(&state) == ASKED && turn < YIELDS + SLEEPS; turn++) {
        if (turn < YIELDS)
            sched_yield();
        else
            gs_syscall(SYS_nanosleep, (long)&ms, 0, 0, 0, 0, 0);
    }
    if (atomic_compare_exchange_strong(&state, &asked, IDLE))
        return false;
    while (atomic_load(&state) != DONE)
        sched_yield();
    return true;
}

/* One at a time: the lock of the symbols is held. Who brings thread-local storage of its own is not asked. */
bool gs_calls_of_running(struct worker *worker, const struct gs_thread *thread,
                         struct calls *ret_calls)
{
    int kernel_id = atomic_load(&worker->kernel_id);
    if (GS_TSAN || worker->is_mute || thread->base || !install())
        return false;
    asked_worker = worker;
    asked_thread = thread;
    atomic_store(&asked_kernel_id, kernel_id);
    atomic_store(&state, ASKED);
    if (gs_syscall(SYS_tgkill, getpid(), kernel_id, gs_sample_signal(), 0, 0, 0)) {
        atomic_store(&state, IDLE);
        return false;
    }
    worker->is_mute = !wait_for_answer();
    if (worker->is_mute)
        return false;
    *ret_calls = noted;
    atomic_store(&state, IDLE);
    return ret_calls->count;
}
