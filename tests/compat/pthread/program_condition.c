/* Condition variables with mutexes of all kinds: turns, broadcasts, cancellation, signal handlers
 * and deadlines during a wait. */
#include "tests/compat/pthread/program.h"

enum { TURNS = 3000, WAITERS = 8 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turn, is_open, waiting, is_locked_in_cleanup;
static atomic_int handled, could_lock;

/* ---- Turns ---- */

static void *take_turns(void *mine)
{
    long taken = 0;
    for (int i = 0; i < TURNS; i++, taken++) {
        pthread_mutex_lock(&mutex);
        while (turn != (int)(long)mine)
            pthread_cond_wait(&cond, &mutex);
        turn = !turn;
        pthread_cond_signal(&cond);
        pthread_mutex_unlock(&mutex);
    }
    return (void *)taken;
}

static void test_turns(void)
{
    pthread_t one = start(take_turns, (void *)0), other = start(take_turns, (void *)1);
    SHOW(finish(one));
    SHOW(finish(other));
}

static long count;

static void *add(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(&mutex);
        count++;
        if (i % 100 == 0)
            sched_yield();
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void test_contention(void)
{
    pthread_t threads[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        threads[i] = start(add, NULL);
    for (int i = 0; i < WAITERS; i++)
        finish(threads[i]);
    SHOW(count);
}

/* ---- Broadcasts, with a mutex of each kind, and the end of the objects ---- */

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
};

static void *pass(void *argument)
{
    struct gate *gate = argument;
    pthread_mutex_lock(&gate->mutex);
    waiting++;
    while (!is_open)
        pthread_cond_wait(&gate->cond, &gate->mutex);
    waiting--;
    return (void *)(long)pthread_mutex_unlock(&gate->mutex);
}

static void test_gate(int kind, int protocol)
{
    pthread_t threads[WAITERS];
    pthread_mutexattr_t attributes;
    struct gate *gate = malloc(sizeof *gate);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kind);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    SHOW(pthread_mutex_init(&gate->mutex, &attributes));
    SHOW(pthread_cond_init(&gate->cond, NULL));
    is_open = waiting = 0;
    for (int i = 0; i < WAITERS; i++)
        threads[i] = start(pass, gate);
    for (int seen = 0; seen < WAITERS; sched_yield()) {
        pthread_mutex_lock(&gate->mutex);
        seen = waiting;
        pthread_mutex_unlock(&gate->mutex);
    }
    pthread_mutex_lock(&gate->mutex);
    is_open = 1;
    pthread_cond_broadcast(&gate->cond);
    pthread_mutex_unlock(&gate->mutex);
    SHOW(pthread_cond_destroy(&gate->cond));
    for (int i = 0; i < WAITERS; i++)
        SHOW(finish(threads[i]));
    SHOW(waiting);
    SHOW(pthread_mutex_destroy(&gate->mutex));
    free(gate);
}

/* ---- Cancellation ---- */

static void unlock(void *unused)
{
    (void)unused;
    is_locked_in_cleanup = pthread_mutex_trylock(&mutex) == EBUSY;
    pthread_mutex_unlock(&mutex);
}

static void *wait_for_cancel(void *type)
{
    pthread_setcanceltype((int)(long)type, NULL);
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, NULL);
    waiting = 1;
    for (;;)
        pthread_cond_wait(&cond, &mutex);
    pthread_cleanup_pop(0);
    return NULL;
}

static void wait_until_waiting(void)
{
    for (int seen = 0; !seen; sched_yield()) {
        pthread_mutex_lock(&mutex);
        seen = waiting;
        pthread_mutex_unlock(&mutex);
    }
}

static void test_cancel(int type)
{
    waiting = is_locked_in_cleanup = 0;
    pthread_t thread = start(wait_for_cancel, (void *)(long)type);
    wait_until_waiting();
    sleep_ms(5); /* the mutex is free a little before the thread sleeps */
    SHOW(pthread_cancel(thread));
    SHOW(finish(thread) == (long)PTHREAD_CANCELED);
    SHOW(is_locked_in_cleanup);
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
}

/* ---- Handlers, which run while the mutex is free ---- */

static void on_signal(int number)
{
    (void)number;
    if (!pthread_mutex_trylock(&mutex)) {
        could_lock = 1;
        pthread_mutex_unlock(&mutex);
    }
    handled = 1;
}

static void *wait_open(void *unused)
{
    pthread_mutex_lock(&mutex);
    waiting = 1;
    while (!is_open)
        pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void test_handler(void)
{
    waiting = is_open = 0;
    signal(SIGUSR1, on_signal);
    pthread_t thread = start(wait_open, NULL);
    wait_until_waiting();
    SHOW(pthread_kill(thread, SIGUSR1));
    while (!handled)
        sched_yield();
    SHOW(could_lock);
    pthread_mutex_lock(&mutex);
    is_open = 1;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
    SHOW(finish(thread));
}

/* ---- A wait ends for none of the handlers ---- */

enum { SIGNALS_SENT = 20 };
static atomic_int sent_on;

static void wake_when_last(int number)
{
    (void)number;
    if (++sent_on == SIGNALS_SENT)
        pthread_cond_signal(&cond); /* to the waiter whose handler this is */
}

static void *wait_once(void *deadline)
{
    const struct timespec time = after_ms(CLOCK_REALTIME, 60000);
    pthread_mutex_lock(&mutex);
    waiting = 1;
    long err =
        deadline ? pthread_cond_timedwait(&cond, &mutex, &time) : pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
    return (void *)(sent_on * 1000L + err);
}

static void test_handlers_in_wait(void *deadline)
{
    waiting = sent_on = 0;
    signal(SIGUSR2, wake_when_last);
    pthread_t thread = start(wait_once, deadline);
    wait_until_waiting();
    for (int i = 0; i < SIGNALS_SENT; i++) {
        pthread_kill(thread, SIGUSR2);
        while (sent_on == i)
            sched_yield();
    }
    SHOW(finish(thread));
}

/* The handler forks, and the wait of the child goes on where it was: its process has one thread. */
static pid_t child;

static void fork_and_signal(int number)
{
    (void)number;
    child = fork();
    if (!child)
        alarm(20);
    pthread_cond_signal(&cond);
}

static void *wait_and_return(void *unused)
{
    pthread_mutex_lock(&mutex);
    waiting = 1;
    pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
    if (!child)
        _exit(pthread_mutex_trylock(&mutex) ? 1 : 7);
    return unused;
}

static void test_fork_in_wait(void)
{
    int status = -1;
    waiting = 0;
    signal(SIGUSR2, fork_and_signal);
    pthread_t thread = start(wait_and_return, NULL);
    wait_until_waiting();
    pthread_kill(thread, SIGUSR2);
    SHOW(finish(thread));
    SHOW(waitpid(child, &status, 0) == child);
    SHOW(status);
}

/* ---- Deadlines ---- */

static void *wait_with_deadlines(void *unused)
{
    pthread_condattr_t attributes;
    pthread_cond_t monotonic;
    struct timespec time = after_ms(CLOCK_REALTIME, 3), bad = {0, 1000000000};
    const struct timespec negative = {-1, 0};
    pthread_condattr_init(&attributes);
    SHOW(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    SHOW(pthread_cond_init(&monotonic, &attributes));
    pthread_mutex_lock(&mutex);
    SHOW(pthread_cond_timedwait(&cond, &mutex, &time));
    time = after_ms(CLOCK_MONOTONIC, 3);
    SHOW(pthread_cond_timedwait(&monotonic, &mutex, &time));
    SHOW(pthread_cond_timedwait(&monotonic, &mutex, &time));
    time = after_ms(CLOCK_REALTIME, 3);
    SHOW(pthread_cond_clockwait(&monotonic, &mutex, CLOCK_REALTIME, &time));
    SHOW(pthread_cond_timedwait(&cond, &mutex, &bad));
    SHOW(pthread_cond_timedwait(&cond, &mutex, &negative));
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    return unused;
}

int main(void)
{
    test_turns();
    test_contention();
    test_gate(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE);
    test_gate(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE);
    test_gate(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE);
    test_gate(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT);
    test_cancel(PTHREAD_CANCEL_DEFERRED);
    test_cancel(PTHREAD_CANCEL_ASYNCHRONOUS);
    test_handler();
    test_handlers_in_wait(NULL);
    test_handlers_in_wait(&mutex);
    fflush(stdout);
    test_fork_in_wait();
    SHOW(finish(start(wait_with_deadlines, NULL)));
    return 0;
}
