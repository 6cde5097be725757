/* A shared library that a program is linked with (-lgossamer_check), or that is preloaded, to find
 * user threads that wait while they hold a pthread mutex or the lock of a stdio stream. It
 * interposes the C library's functions for these, and keeps a list for each kernel thread. A lock
 * that was acquired since the last switch belongs to the user thread that leaves now. */
#include "thread/preload/lock_tracker.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define VISIBLE __attribute__((visibility("default")))
/* Further locks are not tracked. */
#define HELD_MAX 64

struct entry {
    const void *lock, *lock_site;
    const void *thread; /* NULL: acquired since the last switch */
    bool is_returned;
};
static __thread __attribute__((tls_model("initial-exec"))) struct entry held[HELD_MAX];
static __thread __attribute__((tls_model("initial-exec"))) unsigned count;

static void *find(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void note_locked(const void *lock, const void *lock_site)
{
    if (count < HELD_MAX)
        held[count++] = (struct entry){.lock = lock, .lock_site = lock_site};
}

/* A recursive lock is in the list several times: the last entry is removed. */
static void note_unlocked(const void *lock)
{
    unsigned i = count;
    while (i && held[i - 1].lock != lock)
        i--;
    if (!i)
        return;
    for (count--; i <= count; i++)
        held[i - 1] = held[i];
}

VISIBLE unsigned gs_held_locks_at_wait(const void *thread, struct gs_held_lock *ret_last)
{
    unsigned count_new = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!held[i].thread)
            held[i].thread = thread;
        if (held[i].thread != thread || held[i].is_returned)
            continue;
        held[i].is_returned = true;
        *ret_last = (struct gs_held_lock){held[i].lock, held[i].lock_site};
        count_new++;
    }
    return count_new;
}

/* ---- Interposed functions ---- */

VISIBLE int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*next)(pthread_mutex_t *);
    if (!next)
        next = (int (*)(pthread_mutex_t *))find("pthread_mutex_lock");
    int err = next(mutex);
    if (!err)
        note_locked(mutex, __builtin_return_address(0));
    return err;
}

VISIBLE int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    static int (*next)(pthread_mutex_t *);
    if (!next)
        next = (int (*)(pthread_mutex_t *))find("pthread_mutex_trylock");
    int err = next(mutex);
    if (!err)
        note_locked(mutex, __builtin_return_address(0));
    return err;
}

VISIBLE int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *abstime)
{
    static int (*next)(pthread_mutex_t *, const struct timespec *);
    if (!next)
        next = (int (*)(pthread_mutex_t *, const struct timespec *))find("pthread_mutex_timedlock");
    int err = next(mutex, abstime);
    if (!err)
        note_locked(mutex, __builtin_return_address(0));
    return err;
}

VISIBLE int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static int (*next)(pthread_mutex_t *);
    if (!next)
        next = (int (*)(pthread_mutex_t *))find("pthread_mutex_unlock");
    note_unlocked(mutex);
    return next(mutex);
}

VISIBLE void flockfile(FILE *stream)
{
    static void (*next)(FILE *);
    if (!next)
        next = (void (*)(FILE *))find("flockfile");
    next(stream);
    note_locked(stream, __builtin_return_address(0));
}

VISIBLE int ftrylockfile(FILE *stream)
{
    static int (*next)(FILE *);
    if (!next)
        next = (int (*)(FILE *))find("ftrylockfile");
    int err = next(stream);
    if (!err)
        note_locked(stream, __builtin_return_address(0));
    return err;
}

VISIBLE void funlockfile(FILE *stream)
{
    static void (*next)(FILE *);
    if (!next)
        next = (void (*)(FILE *))find("funlockfile");
    note_unlocked(stream);
    next(stream);
}
