/* Reader-writer locks: as in glibc, readers come before writers that wait, unless the lock is of
 * the kind that prefers writers. */
#include "compiler/runtime/locks/shared_mutex.h"

#include <pthread.h>
#include <string.h>

struct rwlock {
    atomic_flag lock;
    bool is_shared; /* by processes: it has no queues */
    unsigned readers;
    uint64_t writer; /* 0: none */
    struct queue waiting_readers, waiting_writers;
    int kind;
};
_Static_assert(sizeof(struct rwlock) <= sizeof(pthread_rwlock_t), "it replaces that");
_Static_assert(offsetof(struct rwlock, kind) == offsetof(pthread_rwlock_t, __data.__flags),
               "static initialisers set the kind");

static struct rwlock *rwlock_of(pthread_rwlock_t *rwlock)
{
    return (struct rwlock *)rwlock;
}

/* The writer before and after the run. */
static const char outside;

static uint64_t number_of(const struct rwlock *one, const struct thread *self)
{
    if (one->is_shared)
        return gs_cc_shared_number(self);
    return self ? (uintptr_t)self : (uintptr_t)&outside;
}

static bool prefers_writers(const struct rwlock *one)
{
    return one->kind == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP && !one->is_shared;
}

static bool try_lock(struct rwlock *one, const struct thread *self, bool is_write)
{
    if (one->writer || (is_write && one->readers))
        return false;
    if (!is_write && prefers_writers(one) && one->waiting_writers.first)
        return false;
    if (is_write)
        one->writer = number_of(one, self);
    else
        one->readers++;
    return true;
}

/* The caller holds the lock. */
static struct thread *take_readers(struct rwlock *one)
{
    struct thread *first = one->waiting_readers.first;
    for (struct thread *at = first; at; at = at->next) {
        set_phase(at, PHASE_CLAIMED);
        one->readers++;
    }
    one->waiting_readers.first = NULL;
    return first;
}

static struct thread *take_writer(struct rwlock *one)
{
    struct thread *first = queue_pop(&one->waiting_writers);
    one->writer = (uintptr_t)first;
    if (first)
        first->next = NULL;
    return first;
}

/* Let the readers that wait have the lock, or else a writer, or the other way round. Returns the
 * first of those to be woken, linked by `next`. The caller holds the lock. */
static struct thread *pass_on(struct rwlock *one)
{
    struct thread *first = prefers_writers(one) ? take_writer(one) : take_readers(one);
    if (first)
        return first;
    return prefers_writers(one) ? take_readers(one) : take_writer(one);
}

static void wake(struct thread *woken)
{
    while (woken) {
        struct thread *next = woken->next;
        grant(woken);
        woken = next;
    }
}

/* A writer does not wait any more: readers that have waited for it alone have the lock. */
static struct thread *leave_queue(struct rwlock *one, struct queue *queue, struct thread *self)
{
    queue_remove(queue, self);
    bool is_free = prefers_writers(one) && !one->writer && !one->waiting_writers.first;
    return is_free ? take_readers(one) : NULL;
}

/* Returns 0, EBUSY: the thread has to wait, or another error; *ret_woken: whom to wake. The caller
 * holds the lock. */
static int lock_or_queue(struct thread *self, struct rwlock *one, bool is_write,
                         uint64_t deadline_ns, struct thread **ret_woken)
{
    struct queue *queue = is_write ? &one->waiting_writers : &one->waiting_readers;
    switch (self->phase) {
    case PHASE_NEW:
        if (try_lock(one, self, is_write))
            return 0;
        if (one->writer == number_of(one, self))
            return EDEADLK;
        queue_append(queue, self);
        return EBUSY;
    case PHASE_GRANTED:
        return 0;
    case PHASE_WAITING: {
        int err = must_leave(self) ? ECANCELED : is_late(deadline_ns) ? ETIMEDOUT : EBUSY;
        if (err != EBUSY)
            *ret_woken = leave_queue(one, queue, self);
        return err;
    }
    default:
        return EBUSY;
    }
}

static int lock_shared(struct thread *self, struct rwlock *one, bool is_write, uint64_t deadline_ns)
{
    int err;
    for (;;) {
        spin_lock(&one->lock);
        bool is_owner = one->writer == number_of(one, self);
        err = try_lock(one, self, is_write) ? 0 : is_owner ? EDEADLK : EBUSY;
        spin_unlock(&one->lock);
        if (err == EBUSY && is_late(deadline_ns))
            err = ETIMEDOUT;
        if (err != EBUSY || (self && must_leave(self)))
            break;
        if (gs_cc_look_again(self, deadline_ns))
            return 0;
    }
    if (self && self->phase != PHASE_NEW)
        gs_cc_complete(self);
    if (self && must_leave(self))
        gs_cc_test_cancel(self);
    return err;
}

static int lock_until(pthread_rwlock_t *rwlock, bool is_write, uint64_t deadline_ns)
{
    struct thread *self = thread_self();
    struct rwlock *one = rwlock_of(rwlock);
    int err;
    if (one->is_shared)
        return lock_shared(self, one, is_write, deadline_ns);
    if (!self)
        return try_lock(one, NULL, is_write) ? 0 : EDEADLK;
    if (take_turn(self))
        return 0;
    for (;;) {
        struct thread *woken = NULL;
        spin_lock(&one->lock);
        err = lock_or_queue(self, one, is_write, deadline_ns, &woken);
        spin_unlock(&one->lock);
        wake(woken);
        if (err != EBUSY)
            break;
        if (gs_cc_wait_until(self, deadline_ns, false))
            return 0;
    }
    if (self->phase != PHASE_NEW)
        gs_cc_complete(self);
    if (must_leave(self))
        gs_cc_test_cancel(self);
    return err;
}

int gs_cc_pthread_rwlock_init(pthread_rwlock_t *rwlock, const pthread_rwlockattr_t *attributes)
{
    int scope = PTHREAD_PROCESS_PRIVATE, kind = PTHREAD_RWLOCK_DEFAULT_NP;
    if (attributes) {
        pthread_rwlockattr_getpshared(attributes, &scope);
        pthread_rwlockattr_getkind_np(attributes, &kind);
    }
    memset(rwlock, 0, sizeof *rwlock);
    rwlock_of(rwlock)->kind = kind;
    rwlock_of(rwlock)->is_shared = scope == PTHREAD_PROCESS_SHARED;
    return 0;
}

int gs_cc_pthread_rwlock_destroy(pthread_rwlock_t *rwlock)
{
    (void)rwlock;
    return 0;
}

int gs_cc_pthread_rwlock_rdlock(pthread_rwlock_t *rwlock)
{
    return lock_until(rwlock, false, GS_NEVER);
}

int gs_cc_pthread_rwlock_wrlock(pthread_rwlock_t *rwlock)
{
    return lock_until(rwlock, true, GS_NEVER);
}

static int lock_until_time(pthread_rwlock_t *rwlock, bool is_write, clockid_t clock,
                           const struct timespec *time)
{
    if (!is_known_clock(clock) || !is_valid_time(time))
        return EINVAL;
    return lock_until(rwlock, is_write, gs_cc_from_clock(clock, time));
}

int gs_cc_pthread_rwlock_timedrdlock(pthread_rwlock_t *rwlock, const struct timespec *time)
{
    return lock_until_time(rwlock, false, CLOCK_REALTIME, time);
}

int gs_cc_pthread_rwlock_timedwrlock(pthread_rwlock_t *rwlock, const struct timespec *time)
{
    return lock_until_time(rwlock, true, CLOCK_REALTIME, time);
}

int gs_cc_pthread_rwlock_clockrdlock(pthread_rwlock_t *rwlock, clockid_t clock,
                                     const struct timespec *time)
{
    return lock_until_time(rwlock, false, clock, time);
}

int gs_cc_pthread_rwlock_clockwrlock(pthread_rwlock_t *rwlock, clockid_t clock,
                                     const struct timespec *time)
{
    return lock_until_time(rwlock, true, clock, time);
}

static int try_rwlock(pthread_rwlock_t *rwlock, bool is_write)
{
    struct rwlock *one = rwlock_of(rwlock);
    spin_lock(&one->lock);
    bool is_locked = try_lock(one, thread_self(), is_write);
    spin_unlock(&one->lock);
    return is_locked ? 0 : EBUSY;
}

int gs_cc_pthread_rwlock_tryrdlock(pthread_rwlock_t *rwlock)
{
    return try_rwlock(rwlock, false);
}

int gs_cc_pthread_rwlock_trywrlock(pthread_rwlock_t *rwlock)
{
    return try_rwlock(rwlock, true);
}

int gs_cc_pthread_rwlock_unlock(pthread_rwlock_t *rwlock)
{
    struct rwlock *one = rwlock_of(rwlock);
    struct thread *woken = NULL;
    spin_lock(&one->lock);
    if (one->writer)
        one->writer = 0;
    else
        one->readers--;
    if (!one->readers && !one->is_shared)
        woken = pass_on(one);
    spin_unlock(&one->lock);
    wake(woken);
    return 0;
}
