/* C11's threads: its types are those of POSIX threads in glibc, under other names. */
#include "compiler/runtime/threads/thread.h"

#include <pthread.h>
#include <threads.h>

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "a mutex is one of POSIX threads");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "a condition is one of POSIX threads");

int gs_cc_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int gs_cc_pthread_join(pthread_t, void **);
int gs_cc_pthread_detach(pthread_t);
pthread_t gs_cc_pthread_self(void);
int gs_cc_pthread_mutex_init(pthread_mutex_t *, const pthread_mutexattr_t *);
int gs_cc_pthread_mutex_lock(pthread_mutex_t *);
int gs_cc_pthread_mutex_trylock(pthread_mutex_t *);
int gs_cc_pthread_mutex_timedlock(pthread_mutex_t *, const struct timespec *);
int gs_cc_pthread_mutex_unlock(pthread_mutex_t *);
int gs_cc_pthread_mutex_destroy(pthread_mutex_t *);
int gs_cc_pthread_cond_init(pthread_cond_t *, const pthread_condattr_t *);
int gs_cc_pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);
int gs_cc_pthread_cond_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
int gs_cc_pthread_cond_signal(pthread_cond_t *);
int gs_cc_pthread_cond_broadcast(pthread_cond_t *);
int gs_cc_pthread_cond_destroy(pthread_cond_t *);
int gs_cc_pthread_once(pthread_once_t *, void (*)(void));
int gs_cc_pthread_key_create(pthread_key_t *, void (*)(void *));
int gs_cc_pthread_key_delete(pthread_key_t);
void *gs_cc_pthread_getspecific(pthread_key_t);
int gs_cc_pthread_setspecific(pthread_key_t, const void *);
int gs_cc_nanosleep(const struct timespec *, struct timespec *);

static int status_of(int err)
{
    return !err               ? thrd_success
           : err == ENOMEM    ? thrd_nomem
           : err == ETIMEDOUT ? thrd_timedout
           : err == EBUSY     ? thrd_busy
                              : thrd_error;
}

/* ---- Threads ---- */

/* The result is an int, in the lower half of the register. */
int gs_cc_thrd_create(thrd_t *ret_thread, thrd_start_t fn, void *argument)
{
    void *(*start)(void *) = (void *(*)(void *))(void *)fn;
    return status_of(gs_cc_pthread_create(ret_thread, NULL, start, argument));
}

int gs_cc_thrd_join(thrd_t thread, int *ret_result)
{
    void *result = NULL;
    int err = gs_cc_pthread_join(thread, &result);
    if (!gs_cc_state.suspending && !err && ret_result)
        *ret_result = (int)(intptr_t)result;
    return status_of(err);
}

int gs_cc_thrd_detach(thrd_t thread)
{
    return status_of(gs_cc_pthread_detach(thread));
}

void gs_cc_thrd_exit(int result)
{
    gs_cc_exit(thread_self(), (void *)(intptr_t)result);
}

thrd_t gs_cc_thrd_current(void)
{
    return (thrd_t)gs_cc_pthread_self();
}

int gs_cc_thrd_equal(thrd_t one, thrd_t other)
{
    return one == other;
}

void gs_cc_thrd_yield(void)
{
    gs_cc_sched_yield();
}

int gs_cc_thrd_sleep(const struct timespec *wait, struct timespec *ret_left)
{
    return !gs_cc_nanosleep(wait, ret_left) ? 0 : errno == EINTR ? -1 : -2;
}

/* ---- Mutexes ---- */

static pthread_mutex_t *mutex_of(mtx_t *mutex)
{
    return (pthread_mutex_t *)mutex;
}

int gs_cc_mtx_init(mtx_t *mutex, int type)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (type & mtx_recursive)
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    return status_of(gs_cc_pthread_mutex_init(mutex_of(mutex), &attributes));
}

int gs_cc_mtx_lock(mtx_t *mutex)
{
    return status_of(gs_cc_pthread_mutex_lock(mutex_of(mutex)));
}

int gs_cc_mtx_trylock(mtx_t *mutex)
{
    return status_of(gs_cc_pthread_mutex_trylock(mutex_of(mutex)));
}

int gs_cc_mtx_timedlock(mtx_t *mutex, const struct timespec *deadline)
{
    return status_of(gs_cc_pthread_mutex_timedlock(mutex_of(mutex), deadline));
}

int gs_cc_mtx_unlock(mtx_t *mutex)
{
    return status_of(gs_cc_pthread_mutex_unlock(mutex_of(mutex)));
}

void gs_cc_mtx_destroy(mtx_t *mutex)
{
    gs_cc_pthread_mutex_destroy(mutex_of(mutex));
}

/* ---- Conditions ---- */

static pthread_cond_t *cond_of(cnd_t *cond)
{
    return (pthread_cond_t *)cond;
}

int gs_cc_cnd_init(cnd_t *cond)
{
    return status_of(gs_cc_pthread_cond_init(cond_of(cond), NULL));
}

int gs_cc_cnd_wait(cnd_t *cond, mtx_t *mutex)
{
    return status_of(gs_cc_pthread_cond_wait(cond_of(cond), mutex_of(mutex)));
}

int gs_cc_cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *deadline)
{
    return status_of(gs_cc_pthread_cond_timedwait(cond_of(cond), mutex_of(mutex), deadline));
}

int gs_cc_cnd_signal(cnd_t *cond)
{
    return status_of(gs_cc_pthread_cond_signal(cond_of(cond)));
}

int gs_cc_cnd_broadcast(cnd_t *cond)
{
    return status_of(gs_cc_pthread_cond_broadcast(cond_of(cond)));
}

void gs_cc_cnd_destroy(cnd_t *cond)
{
    gs_cc_pthread_cond_destroy(cond_of(cond));
}

/* ---- Once, and the values of keys ---- */

void gs_cc_call_once(once_flag *flag, void (*fn)(void))
{
    gs_cc_pthread_once((pthread_once_t *)flag, fn);
}

int gs_cc_tss_create(tss_t *ret_key, tss_dtor_t destroy)
{
    return status_of(gs_cc_pthread_key_create(ret_key, destroy));
}

void gs_cc_tss_delete(tss_t key)
{
    gs_cc_pthread_key_delete(key);
}

void *gs_cc_tss_get(tss_t key)
{
    return gs_cc_pthread_getspecific(key);
}

int gs_cc_tss_set(tss_t key, void *value)
{
    return status_of(gs_cc_pthread_setspecific(key, value));
}
