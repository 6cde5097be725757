/* Semaphores and barriers that are waited for: passed to and fro, ended by cancellations, handlers
 * and deadlines, destroyed by the one that was woken, and reused for many rounds. */
#include "tests/compat/pthread/program.h"

enum { TURNS = 3000, THREADS = 8, ROUNDS = 400 };

static sem_t ping, pong, is_there;

/* The upper half of the first word: what the C library counts as waiters. */
static long waiters_of(const sem_t *sem)
{
    uint64_t word;
    memcpy(&word, sem, sizeof word);
    return (long)(word >> 32);
}

static long value_of(sem_t *sem)
{
    int value = -1;
    sem_getvalue(sem, &value);
    return value;
}

static void *answer(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        struct timespec at = after_ms(CLOCK_MONOTONIC, 60000);
        if (i % 2 ? sem_wait(&ping) : sem_clockwait(&ping, CLOCK_MONOTONIC, &at))
            return &ping;
        sem_post(&pong);
    }
    return unused;
}

static void test_turns(void)
{
    pthread_t thread = start(answer, NULL);
    for (int i = 0; i < TURNS; i++) {
        sem_post(&ping);
        if (sem_wait(&pong))
            SHOW(i);
    }
    SHOW(finish(thread));
    SHOW(value_of(&ping));
    SHOW(waiters_of(&ping));
    SHOW(waiters_of(&pong));
}

/* ---- Many waiters: none is forgotten, also by posts that come together ---- */

static atomic_long passed;

static void *pass_many(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        sem_wait(&ping);
        atomic_fetch_add(&passed, 1);
    }
    return unused;
}

static void test_many(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(pass_many, NULL);
    for (int i = 0; i < THREADS * ROUNDS; i++) {
        sem_post(&ping);
        if (i % 37 == 0)
            sched_yield();
    }
    for (int i = 0; i < THREADS; i++)
        finish(threads[i]);
    SHOW(passed);
    SHOW(value_of(&ping));
    SHOW(waiters_of(&ping));
}

/* ---- Ends of a wait ---- */

static void *wait_forever(void *unused)
{
    sem_post(&is_there);
    sem_wait(&ping);
    return unused;
}

static void await_waiters(long count)
{
    while (waiters_of(&ping) != count)
        sched_yield();
}

static void test_cancellation(void)
{
    pthread_t first = start(wait_forever, NULL), second = start(wait_forever, NULL);
    await_waiters(2);
    pthread_cancel(first);
    SHOW(finish(first) == (long)PTHREAD_CANCELED);
    SHOW(waiters_of(&ping));
    sem_post(&ping);
    SHOW(finish(second));
    SHOW(waiters_of(&ping));
    SHOW(value_of(&ping));
}

/* A semaphore that is there is not taken by a thread that was canceled before. */
static void *wait_canceled(void *unused)
{
    pthread_cancel(pthread_self());
    sem_wait(&pong);
    return unused;
}

static void test_canceled_before(void)
{
    sem_post(&pong);
    SHOW(finish(start(wait_canceled, NULL)) == (long)PTHREAD_CANCELED);
    SHOW(value_of(&pong));
    SHOW(sem_trywait(&pong));
}

static atomic_int calls;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&calls, 1);
}

static void on_signal_post(int number)
{
    (void)number;
    atomic_fetch_add(&calls, 1);
    sem_post(&ping);
}

static void *wait_once(void *with_deadline)
{
    struct timespec at = after_ms(CLOCK_REALTIME, 60000);
    errno = 0;
    int result = with_deadline ? sem_timedwait(&ping, &at) : sem_wait(&ping);
    return result ? &calls + (errno == EINTR) : NULL; /* 4: interrupted */
}

static void test_handlers(void)
{
    for (int i = 0; i < 4; i++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = i % 2 ? SA_RESTART : 0};
        sigaction(SIGUSR1, &action, NULL);
        calls = 0;
        pthread_t thread = start(wait_once, i / 2 ? &calls : NULL);
        await_waiters(1);
        pthread_kill(thread, SIGUSR1);
        while (!calls)
            sched_yield();
        sem_post(&ping);
        SHOW(finish(thread) != 0);
        SHOW(waiters_of(&ping));
        SHOW(value_of(&ping));
        sem_trywait(&ping);
    }
    struct sigaction action = {.sa_handler = on_signal_post, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread = start(wait_once, NULL);
    await_waiters(1);
    pthread_kill(thread, SIGUSR1);
    SHOW(finish(thread));
    SHOW(value_of(&ping));
}

static void test_deadlines(void)
{
    struct timespec soon = after_ms(CLOCK_REALTIME, 5), past = {.tv_sec = -1},
                    invalid = {.tv_nsec = 1000000000};
    SHOW_ERROR(sem_timedwait(&ping, &soon));
    SHOW_ERROR(sem_timedwait(&ping, &past));
    SHOW_ERROR(sem_timedwait(&ping, &invalid));
    SHOW_ERROR(sem_clockwait(&ping, CLOCK_PROCESS_CPUTIME_ID, &soon));
    SHOW(waiters_of(&ping));
    sem_post(&ping);
    SHOW_ERROR(sem_timedwait(&ping, &past));
    sem_post(&ping);
    SHOW_ERROR(sem_timedwait(&ping, &invalid));
    SHOW_ERROR(sem_trywait(&ping));
}

/* ---- Destroyed by whom it wakes ---- */

static void *post_once(void *sem)
{
    sem_post(sem);
    return NULL;
}

static void test_destruction(void)
{
    long sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        sem_t *once = malloc(sizeof *once);
        sem_init(once, 0, 0);
        pthread_t thread = start(post_once, once);
        sum += sem_wait(once) + sem_destroy(once);
        memset(once, 0xff, sizeof *once);
        free(once);
        sum += finish(thread);
    }
    SHOW(sum);
}

/* ---- Barriers ---- */

static pthread_barrier_t barrier;
static atomic_long serials, rounds[ROUNDS], errors;

static void *meet(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        atomic_fetch_add(&rounds[i], 1);
        int result = pthread_barrier_wait(&barrier);
        atomic_fetch_add(&serials, result == PTHREAD_BARRIER_SERIAL_THREAD);
        atomic_fetch_add(&errors, rounds[i] != THREADS);
    }
    return unused;
}

static void meet_all(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(meet, NULL);
    for (int i = 0; i < THREADS; i++)
        finish(threads[i]);
    SHOW(serials);
    SHOW(errors);
}

static void test_barrier(void)
{
    pthread_barrier_init(&barrier, NULL, THREADS);
    meet_all();
    SHOW(pthread_barrier_destroy(&barrier));
}

/* A barrier whose numbers are about to end, which is how the C library destroys it, too. */
static void test_last_numbers(void)
{
    uint32_t *words = (uint32_t *)(void *)&barrier; /* in, round, count, shared, out */
    memset(rounds, 0, sizeof rounds);
    serials = errors = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    uint32_t end = 0x7fffffffu - 0x7fffffffu % THREADS;
    words[0] = words[1] = words[4] = end - 5 * THREADS;
    meet_all();
    SHOW(words[0] == (ROUNDS - 5) * THREADS);
    SHOW(pthread_barrier_destroy(&barrier));
}

static void *meet_and_destroy(void *unused)
{
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        return (void *)(long)(1 + pthread_barrier_destroy(&barrier)); // NOLINT(performance-*)
    return unused;
}

static void test_destroyed_barrier(void)
{
    long sum = 0;
    for (int i = 0; i < 50; i++) {
        pthread_t threads[3];
        pthread_barrier_init(&barrier, NULL, 3);
        for (int j = 0; j < 3; j++)
            threads[j] = start(meet_and_destroy, NULL);
        for (int j = 0; j < 3; j++)
            sum += finish(threads[j]);
        memset(&barrier, 0xff, sizeof barrier);
    }
    SHOW(sum);
}

int main(void)
{
    sem_init(&ping, 0, 0);
    sem_init(&pong, 0, 0);
    sem_init(&is_there, 0, 0);
    test_turns();
    test_many();
    test_cancellation();
    test_canceled_before();
    test_handlers();
    test_deadlines();
    test_destruction();
    test_barrier();
    test_last_numbers();
    test_destroyed_barrier();
    return 0;
}
