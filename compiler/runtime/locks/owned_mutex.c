/* Mutexes of libraries that know their owner (libraries.h). The C library takes all threads of a
 * worker for one, so the runtime remembers which of them has a mutex that is locked. */
#include "compiler/runtime/libraries/libraries.h"
#include "compiler/runtime/start/memory.h"
#include "compiler/runtime/threads/thread.h"

#define BUCKETS 64

struct owned {
    struct owned *next;
    const pthread_mutex_t *mutex;
    const struct thread *owner;
    unsigned count;
};

static struct {
    atomic_flag lock;
    struct owned *first, *unused;
} buckets[BUCKETS];

static unsigned bucket_of(const pthread_mutex_t *mutex)
{
    return (unsigned)((uintptr_t)mutex / sizeof(void *) * 2654435761u >> 16) % BUCKETS;
}

/* Returns where the mutex is, or would be. The caller holds the bucket's lock. */
static struct owned **find(unsigned bucket, const pthread_mutex_t *mutex)
{
    struct owned **place = &buckets[bucket].first;
    while (*place && (*place)->mutex != mutex)
        place = &(*place)->next;
    return place;
}

static struct owned *take_unused(unsigned bucket)
{
    struct owned *owned = buckets[bucket].unused;
    if (!owned)
        return gs_cc_allocate(sizeof *owned);
    buckets[bucket].unused = owned->next;
    return owned;
}

static void give_back(unsigned bucket, struct owned *owned)
{
    owned->next = buckets[bucket].unused;
    buckets[bucket].unused = owned;
}

bool gs_cc_has_owner(const pthread_mutex_t *mutex)
{
    int kind = mutex->__data.__kind & 3;
    return kind == PTHREAD_MUTEX_RECURSIVE || kind == PTHREAD_MUTEX_ERRORCHECK;
}

/* The caller holds the bucket's lock. */
static int lock_first(unsigned bucket, pthread_mutex_t *mutex, const struct thread *self)
{
    struct owned *owned = take_unused(bucket);
    int err = pthread_mutex_trylock(mutex);
    if (err) {
        give_back(bucket, owned);
        return err;
    }
    *owned = (struct owned){buckets[bucket].first, mutex, self, 1};
    buckets[bucket].first = owned;
    return 0;
}

int gs_cc_owned_trylock(pthread_mutex_t *mutex, const struct thread *self)
{
    unsigned bucket = bucket_of(mutex);
    int err = EBUSY;
    spin_lock(&buckets[bucket].lock);
    struct owned *owned = *find(bucket, mutex);
    if (!owned) {
        err = lock_first(bucket, mutex, self);
    } else if (owned->owner == self) {
        err = pthread_mutex_trylock(mutex);
        owned->count += !err;
        err = err == EBUSY ? EDEADLK : err;
    }
    spin_unlock(&buckets[bucket].lock);
    return err;
}

int gs_cc_owned_unlock(pthread_mutex_t *mutex, const struct thread *self)
{
    unsigned bucket = bucket_of(mutex);
    int err = EPERM;
    spin_lock(&buckets[bucket].lock);
    struct owned **place = find(bucket, mutex), *owned = *place;
    if (!owned || owned->owner == self)
        err = pthread_mutex_unlock(mutex);
    if (!err && owned && !--owned->count) {
        *place = owned->next;
        give_back(bucket, owned);
    }
    spin_unlock(&buckets[bucket].lock);
    return err;
}
