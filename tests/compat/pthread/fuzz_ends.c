/* Cancellations of random threads, and signals to them. */
#include "tests/compat/pthread/program.h"
#include "tests/compat/pthread/program_fuzz.h"

/* A thread that waits in one of many ways until it is cancelled. */
struct victim {
    uint32_t way;
    atomic_bool has_begun;
    atomic_long cleaned;
    int ends[2];
    sem_t none;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
};

static void clean(void *argument)
{
    struct victim *victim = argument;
    atomic_fetch_add(&victim->cleaned, 1);
}

static void unlock(void *argument)
{
    struct victim *victim = argument;
    pthread_mutex_unlock(&victim->mutex);
}

static void wait_at_condition(struct victim *victim)
{
    pthread_mutex_lock(&victim->mutex);
    pthread_cleanup_push(unlock, victim);
    for (;;)
        pthread_cond_wait(&victim->condition, &victim->mutex);
    pthread_cleanup_pop(1);
}

static void compute_for_ever(void)
{
    int old;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (volatile long i = 0;; i++)
        ;
}

static void wait_for_ever(struct victim *victim)
{
    char byte;
    struct pollfd polls = {.fd = victim->ends[0], .events = POLLIN};
    switch (victim->way) {
    case 0:
        if (read(victim->ends[0], &byte, 1) >= 0)
            abort(); /* nothing is written */
        break;
    case 1:
        recv(victim->ends[0], &byte, 1, 0);
        break;
    case 2:
        sem_wait(&victim->none);
        break;
    case 3:
        wait_at_condition(victim);
        break;
    case 4:
        nanosleep(&(struct timespec){1000, 0}, NULL);
        break;
    case 5:
        poll(&polls, 1, -1);
        break;
    case 6:
        pause();
        break;
    case 7:
        compute_for_ever();
        break;
    default:
        pthread_testcancel();
        sched_yield();
        break;
    }
}

static void *live(void *argument)
{
    struct victim *victim = argument;
    pthread_cleanup_push(clean, victim);
    atomic_store(&victim->has_begun, true);
    for (;;)
        wait_for_ever(victim);
    pthread_cleanup_pop(1);
    return NULL;
}

static long cancel(struct fuzz *fuzz)
{
    struct victim victim = {.way = fuzz_next(fuzz) % 9,
                            .mutex = PTHREAD_MUTEX_INITIALIZER,
                            .condition = PTHREAD_COND_INITIALIZER};
    void *result = NULL;
    sem_init(&victim.none, 0, 0);
    EXPECT(!socketpair(AF_UNIX, SOCK_STREAM, 0, victim.ends));
    pthread_t thread = start(live, &victim);
    while (!atomic_load(&victim.has_begun))
        sched_yield();
    if (fuzz_next(fuzz) % 3 == 0)
        sleep_ms(1);
    EXPECT(!pthread_cancel(thread));
    EXPECT(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
    EXPECT(atomic_load(&victim.cleaned) == 1);
    EXPECT(!close(victim.ends[0]) && !close(victim.ends[1]));
    EXPECT(!pthread_mutex_lock(&victim.mutex) && !pthread_mutex_unlock(&victim.mutex));
    return victim.way;
}

/* ---- Signals to one thread ---- */

static _Thread_local volatile long caught;
static _Thread_local sem_t *acknowledged;

static void on_signal(int number)
{
    (void)number;
    caught++;
    if (acknowledged)
        sem_post(acknowledged);
}

struct listener {
    sem_t acknowledged;
    bool suspends;
    long n;
};

static void *listen_to_signals(void *argument)
{
    struct listener *listener = argument;
    sigset_t blocked, old;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &blocked, &old);
    acknowledged = &listener->acknowledged;
    sem_post(acknowledged);
    while (listener->suspends && caught < listener->n)
        sigsuspend(&old);
    pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
    while (caught < listener->n)
        nanosleep(&(struct timespec){0, 100000}, NULL);
    return (void *)caught; // NOLINT(performance-no-int-to-ptr)
}

/* Each is sent when the one before has been handled, since equal signals are merged. */
static long send_signals(struct fuzz *fuzz)
{
    struct listener listener = {.suspends = fuzz_next(fuzz) % 2, .n = fuzz_next(fuzz) % 6};
    sem_init(&listener.acknowledged, 0, 0);
    pthread_t thread = start(listen_to_signals, &listener);
    EXPECT(!RETRIED(sem_wait(&listener.acknowledged)));
    for (long i = 0; i < listener.n; i++) {
        EXPECT(!pthread_kill(thread, SIGUSR1));
        EXPECT(!RETRIED(sem_wait(&listener.acknowledged)));
    }
    EXPECT(finish(thread) == listener.n);
    return listener.n;
}

static long signal_myself(struct fuzz *fuzz)
{
    long n = fuzz_next(fuzz) % 4, before = caught;
    for (long i = 0; i < n; i++)
        EXPECT(!pthread_kill(pthread_self(), SIGUSR1) && caught == before + i + 1);
    return n;
}

static void *wait_for_signals(void *argument)
{
    long n = *(long *)argument, sum = 0;
    sigset_t wanted;
    siginfo_t info;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGRTMIN + 2);
    for (long i = 0; i < n; i++) {
        EXPECT(RETRIED(sigwaitinfo(&wanted, &info)) == SIGRTMIN + 2);
        sum += info.si_value.sival_int;
    }
    return (void *)sum; // NOLINT(performance-no-int-to-ptr)
}

static long queue_signals(struct fuzz *fuzz)
{
    long n = fuzz_next(fuzz) % 6, sum = 0;
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN + 2);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL); /* which the thread inherits */
    pthread_t thread = start(wait_for_signals, &n);
    for (long i = 0; i < n; i++, sum += i)
        EXPECT(!pthread_sigqueue(thread, SIGRTMIN + 2, (union sigval){.sival_int = (int)i + 1}));
    EXPECT(finish(thread) == sum);
    return sum;
}

static __attribute__((constructor)) void catch_signals(void)
{
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_RESTART}, NULL);
}

const struct fuzz_action fuzz_ends[] = {
    {cancel}, {cancel}, {send_signals}, {signal_myself}, {queue_signals}, {0},
};
