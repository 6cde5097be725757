/* The callbacks of event2/thread.h on pthreads: the library libevent_pthreads. */
#include <errno.h>
#include <event2/thread.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutexattr_t recursive;

static void *new_lock(unsigned type)
{
    pthread_mutex_t *mutex = malloc(sizeof(pthread_mutex_t));
    if (!mutex)
        return NULL;
    if (pthread_mutex_init(mutex, type & EVTHREAD_LOCKTYPE_RECURSIVE ? &recursive : NULL)) {
        free(mutex);
        return NULL;
    }
    return mutex;
}

static void free_lock(void *lock, unsigned type)
{
    (void)type;
    pthread_mutex_destroy(lock);
    free(lock);
}

static int lock_mutex(unsigned mode, void *lock)
{
    return mode & EVTHREAD_TRY ? pthread_mutex_trylock(lock) : pthread_mutex_lock(lock);
}

static int unlock_mutex(unsigned mode, void *lock)
{
    (void)mode;
    return pthread_mutex_unlock(lock);
}

static unsigned long own_id(void)
{
    return (unsigned long)pthread_self();
}

static void *new_condition(unsigned type)
{
    (void)type;
    pthread_cond_t *cond = malloc(sizeof(pthread_cond_t));
    if (!cond)
        return NULL;
    if (pthread_cond_init(cond, NULL)) {
        free(cond);
        return NULL;
    }
    return cond;
}

static void free_condition(void *cond)
{
    pthread_cond_destroy(cond);
    free(cond);
}

static int signal_condition(void *cond, int broadcast)
{
    int err = broadcast ? pthread_cond_broadcast(cond) : pthread_cond_signal(cond);
    return err ? -1 : 0;
}

static int wait_condition(void *cond, void *lock, const struct timeval *timeout)
{
    if (!timeout)
        return pthread_cond_wait(cond, lock) ? -1 : 0;
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += timeout->tv_sec;
    deadline.tv_nsec += timeout->tv_usec * 1000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_nsec -= 1000000000;
        deadline.tv_sec++;
    }
    int err = pthread_cond_timedwait(cond, lock, &deadline);
    if (err == ETIMEDOUT)
        return 1;
    return err ? -1 : 0;
}

int evthread_use_pthreads(void)
{
    struct evthread_lock_callbacks locks = {
        .lock_api_version = EVTHREAD_LOCK_API_VERSION,
        .supported_locktypes = EVTHREAD_LOCKTYPE_RECURSIVE,
        .alloc = new_lock,
        .free = free_lock,
        .lock = lock_mutex,
        .unlock = unlock_mutex,
    };
    struct evthread_condition_callbacks conditions = {
        .condition_api_version = EVTHREAD_CONDITION_API_VERSION,
        .alloc_condition = new_condition,
        .free_condition = free_condition,
        .signal_condition = signal_condition,
        .wait_condition = wait_condition,
    };
    if (pthread_mutexattr_init(&recursive) ||
        pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE))
        return -1;
    evthread_set_lock_callbacks(&locks);
    evthread_set_condition_callbacks(&conditions);
    evthread_set_id_callback(own_id);
    return 0;
}
