/* Asynchronous cancellation ends also what is no cancellation point, cleanups see the frames that
 * they belong to, and a canceled function of pthread_once is called again. */
#include "program.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t ready, never;
static atomic_int turns;

enum way { MUTEX, READER, WRITER, SPIN, BARRIER, LOOP, ITSELF, TYPE, STATE, WAYS };

static void *be_canceled(void *argument)
{
    int old;
    enum way way = *(enum way *)argument;
    if (way == STATE)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    if (way != TYPE)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    sem_post(&ready);
    switch (way) {
    case MUTEX:
        pthread_mutex_lock(&mutex);
        break;
    case READER:
        pthread_rwlock_rdlock(&rwlock);
        break;
    case WRITER:
        pthread_rwlock_wrlock(&rwlock);
        break;
    case SPIN:
        pthread_spin_lock(&spin);
        break;
    case BARRIER:
        pthread_barrier_wait(&barrier);
        break;
    case LOOP:
        for (;;)
            turns++;
    case ITSELF:
        pthread_cancel(pthread_self());
        break;
    case TYPE:
        pthread_cancel(pthread_self());
        turns++;
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
        break;
    default:
        pthread_cancel(pthread_self());
        turns++;
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    }
    return argument;
}

static void cancel(enum way way)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, be_canceled, &way);
    sem_wait(&ready);
    for (int i = 0; i < 20; i++)
        sched_yield();
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("way %d: canceled %d\n", way, result == PTHREAD_CANCELED);
}

/* ---- Cleanups ---- */

static void add(void *value)
{
    int *sum = value;
    printf("cleanup of %d\n", *sum);
}

/* Variadic: it runs on a stack. */
static void wait_with_cleanups(int count, ...)
{
    int one = count + 1, *volatile other = malloc(sizeof *other);
    *other = count + 2;
    pthread_cleanup_push(free, other);
    pthread_cleanup_push(add, &one);
    pthread_cleanup_push(add, other);
    sem_post(&ready);
    if (count % 2)
        sem_wait(&never);
    pthread_exit(NULL);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
}

static void *end_with_cleanups(void *argument)
{
    int mine = 10 * *(int *)argument;
    pthread_cleanup_push(add, &mine);
    wait_with_cleanups(*(int *)argument, 1, 2);
    pthread_cleanup_pop(0);
    return NULL;
}

static void clean_up(int number)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, end_with_cleanups, &number);
    sem_wait(&ready);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    if (number % 2)
        printf("canceled %d\n", result == PTHREAD_CANCELED);
}

/* ---- Once ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int calls;

static void wait_once(void)
{
    if (calls++)
        return;
    sem_post(&ready);
    sem_wait(&never);
}

static void *call_once_only(void *argument)
{
    pthread_once(&once, wait_once);
    return argument;
}

static void cancel_once(void)
{
    pthread_t thread, next;
    void *result;
    pthread_create(&thread, NULL, call_once_only, NULL);
    sem_wait(&ready);
    pthread_create(&next, NULL, call_once_only, NULL);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    pthread_join(next, NULL);
    pthread_once(&once, wait_once);
    printf("once: canceled %d, %d calls\n", result == PTHREAD_CANCELED, calls);
}

int main(void)
{
    sem_init(&ready, 0, 0);
    sem_init(&never, 0, 0);
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    pthread_spin_init(&spin, 0);
    pthread_spin_lock(&spin);
    pthread_barrier_init(&barrier, NULL, 99);
    for (enum way way = 0; way < WAYS; way++)
        cancel(way);
    for (int number = 1; number < 3; number++)
        clean_up(number);
    cancel_once();
    return 0;
}
