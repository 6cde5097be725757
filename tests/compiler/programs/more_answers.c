/* What calls answer at the limits of what they take, and locks that prefer writers. */
#include "program.h"

#include <sys/prctl.h>

static void *pass(void *argument)
{
    return argument;
}

static void join_without_limit(void)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, pass, &thread);
    printf("%d", pthread_timedjoin_np(thread, &result, NULL));
    printf(" %d\n", result == &thread);
    pthread_create(&thread, NULL, pass, NULL);
    printf("%d", pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, NULL));
    printf(" %d\n", result == NULL);
}

static void fill_semaphore(void)
{
    sem_t semaphore;
    int value;
    sem_init(&semaphore, 0, SEM_VALUE_MAX);
    int result = sem_post(&semaphore), err = errno;
    sem_getvalue(&semaphore, &value);
    printf("%d %s %d\n", result, strerror(err), value == SEM_VALUE_MAX);
}

/* ---- Conditions, and mutexes that are not locked, or whose owner has ended ---- */

static pthread_mutex_t robust;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static atomic_int is_waiting;

static void wait_unlocked(void)
{
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&mutex, &attributes);
    printf("%s\n", strerror(pthread_cond_wait(&cond, &mutex)));
    pthread_mutex_destroy(&mutex);
}

static void *wait_robust(void *unused)
{
    pthread_mutex_lock(&robust);
    is_waiting = 1;
    int err = pthread_cond_wait(&cond, &robust);
    printf("waiting for one whose owner has died: %s\n", strerror(err));
    printf("%d", pthread_mutex_consistent(&robust));
    printf(" %d\n", pthread_mutex_unlock(&robust));
    return unused;
}

static void *die_with_mutex(void *unused)
{
    pthread_mutex_lock(&robust);
    pthread_cond_signal(&cond);
    return unused;
}

static void wait_for_dead(void)
{
    pthread_t thread, other;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_create(&thread, NULL, wait_robust, NULL);
    while (!is_waiting)
        sched_yield();
    pthread_create(&other, NULL, die_with_mutex, NULL);
    pthread_join(other, NULL);
    pthread_join(thread, NULL);
    printf("%d\n", pthread_mutex_destroy(&robust));
}

/* ---- A writer that waits comes first ---- */

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static atomic_int readers;

static void *read_locked(void *unused)
{
    pthread_rwlock_rdlock(&rwlock);
    readers++;
    pthread_rwlock_unlock(&rwlock);
    return unused;
}

/* Gives up after a while. */
static void *write_locked(void *until)
{
    printf("writer: %s\n", strerror(pthread_rwlock_timedwrlock(&rwlock, until)));
    return NULL;
}

static void prefer_writers(void)
{
    pthread_t writer, reader;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    pthread_rwlock_rdlock(&rwlock);
    pthread_create(&writer, NULL, write_locked, &until);
    while (pthread_rwlock_tryrdlock(&rwlock) != EBUSY)
        pthread_rwlock_unlock(&rwlock);
    pthread_create(&reader, NULL, read_locked, NULL);
    pthread_join(writer, NULL);
    pthread_join(reader, NULL);
    printf("readers %d\n", readers);
    pthread_rwlock_unlock(&rwlock);
}

int main(void)
{
    char name[16];
    pthread_setname_np(pthread_self(), "a name");
    prctl(PR_GET_NAME, name);
    puts(name);
    join_without_limit();
    fill_semaphore();
    wait_unlocked();
    wait_for_dead();
    prefer_writers();
    return 0;
}
