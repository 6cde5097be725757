/* Mutexes. A mutex that is unlocked is handed to the thread that waits first. */
#include "compiler/runtime/locks/shared_mutex.h"
#include "compiler/runtime/signals/signals.h"
#include "compiler/runtime/threads/attributes.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In place of the C library's: zero is an unlocked mutex, and the kind is where its static
 * initialisers put it. Libraries may lock it as the C library does: so if there are any, the first
 * word says that it is locked, and `is_ours` by whom; otherwise the owner and a count follow
 * there. */
struct mutex {
    atomic_int holding; /* of one that has a holder, or may be a library's */
    unsigned count;     /* how often a recursive one is locked beyond once */
    uintptr_t owner;    /* 0: none */
    int kind;
    int16_t ceiling; /* of one whose kind has PROTECTS */
    atomic_flag lock;
    bool is_ours;
    union {
        struct queue waiting;
        struct shared_holder holder; /* of one that processes share, or a robust one */
    };
};
_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "it replaces that");
_Static_assert(offsetof(struct mutex, kind) == offsetof(pthread_mutex_t, __data.__kind),
               "static initialisers set the kind");

static struct mutex *mutex_of(pthread_mutex_t *mutex)
{
    return (struct mutex *)mutex;
}

static int kind_of(const struct mutex *mutex)
{
    return mutex->kind & 3;
}

/* In the kind, as in glibc. */
#define ROBUST 16
#define PROTECTS 64

static bool is_shared(const struct mutex *mutex)
{
    return mutex->owner == SHARED_OWNER;
}

static struct shared_mutex shared(struct mutex *mutex)
{
    return (struct shared_mutex){&mutex->holding, &mutex->count, kind_of(mutex),
                                 (mutex->kind & ROBUST) != 0, &mutex->holder};
}

/* Only the owner unlocks it. */
static bool knows_owner(const struct mutex *mutex)
{
    return kind_of(mutex) == PTHREAD_MUTEX_RECURSIVE || kind_of(mutex) == PTHREAD_MUTEX_ERRORCHECK;
}

/* The thread; or, outside of the threads, the one that has called the handler or the allocator, or
 * a kernel thread. The allocator does not let others run: who finds that it has a mutex looks
 * again, as it must not be given one that others wait for. */
#define OF_ALLOCATOR ((uintptr_t)1)

static uintptr_t owner_of(const struct thread *self)
{
    const struct thread *thread = self ? self : gs_cc_handling.own;
    return (thread ? (uintptr_t)thread : (uintptr_t)&gs_cc_state) |
           (gs_cc_handling.is_allocating ? OF_ALLOCATOR : 0);
}

static bool is_owner(const struct mutex *mutex, const struct thread *self)
{
    return (mutex->owner | OF_ALLOCATOR) == (owner_of(self) | OF_ALLOCATOR);
}

/* As the C library does it. */
static bool exclude_libraries(struct mutex *mutex)
{
    int unlocked = 0;
    if (gs_cc_is_self_contained || mutex->is_ours)
        return true;
    return mutex->is_ours = atomic_compare_exchange_strong(&mutex->holding, &unlocked, 1);
}

static void admit_libraries(struct mutex *mutex)
{
    enum { HAS_WAITERS = 2 };
    if (gs_cc_is_self_contained)
        return;
    mutex->is_ours = false;
    if (atomic_exchange(&mutex->holding, 0) == HAS_WAITERS)
        syscall(SYS_futex, &mutex->holding, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

bool gs_cc_mutex_is_ours(const pthread_mutex_t *mutex)
{
    return ((const struct mutex *)mutex)->is_ours;
}

/* Returns 0, EBUSY, EINPROGRESS: a library or the allocator has it, or what an error-checking or
 * recursive mutex answers. The caller holds the lock. */
static int try_lock(struct mutex *mutex, const struct thread *self)
{
    if (!exclude_libraries(mutex))
        return EINPROGRESS;
    if (!mutex->owner) {
        mutex->owner = owner_of(self);
        return 0;
    }
    if (!is_owner(mutex, self))
        return mutex->owner & OF_ALLOCATOR ? EINPROGRESS : EBUSY;
    if (kind_of(mutex) == PTHREAD_MUTEX_RECURSIVE) {
        mutex->count++;
        return 0;
    }
    return kind_of(mutex) == PTHREAD_MUTEX_ERRORCHECK ? EDEADLK : EBUSY;
}

static int lock_outside(struct mutex *mutex)
{
    int shared_err;
    if (is_shared(mutex))
        return gs_cc_shared_lock(NULL, shared(mutex), GS_NEVER, &shared_err) ? 0 : shared_err;
    for (;;) {
        spin_lock(&mutex->lock);
        int err = try_lock(mutex, NULL);
        spin_unlock(&mutex->lock);
        if (err != EBUSY && err != EINPROGRESS)
            return err;
        sched_yield();
    }
}

/* Returns 0, EBUSY: the thread has to wait, or another error. The caller holds the lock. */
static int lock_or_queue(struct thread *self, struct mutex *mutex, uint64_t deadline_ns)
{
    int err = EBUSY;
    switch (self->progress ? PHASE_NEW : self->phase) {
    case PHASE_NEW:
        err = try_lock(mutex, self);
        self->progress = err == EINPROGRESS; /* it looks again */
        if (err == EBUSY)
            queue_append(&mutex->waiting, self);
        return err;
    case PHASE_GRANTED:
        return 0;
    case PHASE_WAITING:
        err = must_leave(self) ? ECANCELED : is_late(deadline_ns) ? ETIMEDOUT : EBUSY;
        if (err != EBUSY)
            queue_remove(&mutex->waiting, self);
        return err;
    default:
        return EBUSY;
    }
}

/* The thread has the priority that a mutex gives, while it has that. Such a mutex is as those that
 * processes share. Returns true if the caller must return; otherwise *ret_err is the result. */
static bool lock_shared(struct thread *self, struct mutex *mutex, uint64_t deadline_ns,
                        int *ret_err)
{
    bool protects = mutex->kind & PROTECTS;
    if (protects && self->phase == PHASE_NEW && gs_cc_ceiling_is_too_low(self, mutex->ceiling)) {
        *ret_err = EINVAL;
        return false;
    }
    if (gs_cc_shared_lock(self, shared(mutex), deadline_ns, ret_err))
        return true;
    bool has_it = !*ret_err || *ret_err == EOWNERDEAD;
    int err = protects && has_it ? gs_cc_ceiling_enter(self, mutex->ceiling) : 0;
    if (err) {
        gs_cc_shared_unlock(self, shared(mutex));
        *ret_err = err;
    }
    return false;
}

static int unlock_shared(struct thread *self, struct mutex *mutex)
{
    int ceiling = mutex->kind & PROTECTS ? mutex->ceiling : 0;
    int err = gs_cc_shared_unlock(self, shared(mutex));
    if (self && ceiling && !err)
        gs_cc_ceiling_leave(self, ceiling);
    return err;
}

static bool must_end(const struct thread *self, uint64_t deadline_ns, int *ret_err)
{
    if (must_leave(self))
        *ret_err = ECANCELED;
    else if (is_late(deadline_ns))
        *ret_err = ETIMEDOUT;
    return *ret_err != EINPROGRESS;
}

/* Returns true if the caller must return; otherwise *ret_err is the result. */
static bool lock_until(struct thread *self, struct mutex *mutex, uint64_t deadline_ns, int *ret_err)
{
    if (take_turn(self))
        return true;
    if (is_shared(mutex))
        return lock_shared(self, mutex, deadline_ns, ret_err);
    for (;;) {
        spin_lock(&mutex->lock);
        *ret_err = lock_or_queue(self, mutex, deadline_ns);
        spin_unlock(&mutex->lock);
        if (*ret_err == EINPROGRESS && must_end(self, deadline_ns, ret_err))
            break;
        if (*ret_err != EBUSY && *ret_err != EINPROGRESS)
            break;
        if (self->progress ? gs_cc_look_again(self, deadline_ns)
                           : gs_cc_wait_until(self, deadline_ns, false))
            return true;
    }
    self->progress = 0;
    if (self->phase != PHASE_NEW)
        gs_cc_complete(self);
    return must_leave(self) && gs_cc_test_cancel(self);
}

bool gs_cc_relock(struct thread *self, struct mutex *mutex, int *ret_err)
{
    return lock_until(self, mutex, GS_NEVER, ret_err);
}

bool gs_cc_is_unlockable(const struct mutex *mutex)
{
    if (is_shared(mutex))
        return gs_cc_shared_is_unlockable(thread_self(), shared((struct mutex *)mutex));
    return !knows_owner(mutex) || is_owner(mutex, thread_self());
}

/* The caller holds the lock. */
static void hand_over(struct mutex *mutex)
{
    struct thread *next = queue_pop(&mutex->waiting);
    mutex->owner = (uintptr_t)next;
    if (!next)
        admit_libraries(mutex);
    spin_unlock(&mutex->lock);
    if (next)
        grant(next);
}

void gs_cc_unlock(struct mutex *mutex)
{
    if (is_shared(mutex)) {
        unlock_shared(thread_self(), mutex);
        return;
    }
    spin_lock(&mutex->lock);
    if (!mutex->count) {
        hand_over(mutex);
        return;
    }
    mutex->count--;
    spin_unlock(&mutex->lock);
}

int gs_cc_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    int kind = PTHREAD_MUTEX_NORMAL, scope = PTHREAD_PROCESS_PRIVATE,
        robust = PTHREAD_MUTEX_STALLED, protocol = PTHREAD_PRIO_NONE, ceiling = 0;
    if (attributes) {
        pthread_mutexattr_getprotocol(attributes, &protocol);
        pthread_mutexattr_getprioceiling(attributes, &ceiling);
        pthread_mutexattr_gettype(attributes, &kind);
        pthread_mutexattr_getpshared(attributes, &scope);
        pthread_mutexattr_getrobust(attributes, &robust);
    }
    memset(mutex, 0, sizeof(pthread_mutex_t));
    mutex_of(mutex)->kind = kind | (robust == PTHREAD_MUTEX_ROBUST ? ROBUST : 0);
    if (protocol == PTHREAD_PRIO_PROTECT) {
        mutex_of(mutex)->kind |= PROTECTS;
        mutex_of(mutex)->ceiling = (int16_t)ceiling;
    }
    if (scope == PTHREAD_PROCESS_SHARED || robust == PTHREAD_MUTEX_ROBUST ||
        protocol == PTHREAD_PRIO_PROTECT)
        mutex_of(mutex)->owner = SHARED_OWNER;
    return 0;
}

/* As glibc's, that of a robust one does not fail: its owner may have ended. */
int gs_cc_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    struct mutex *one = mutex_of(mutex);
    if (one->kind & ROBUST)
        return 0;
    return (is_shared(one) ? one->holder.thread != 0 : one->owner) ? EBUSY : 0;
}

int gs_cc_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    struct thread *self = thread_self();
    int err = 0;
    if (!self)
        return lock_outside(mutex_of(mutex));
    return lock_until(self, mutex_of(mutex), GS_NEVER, &err) ? 0 : err;
}

static int try_shared(struct thread *self, struct mutex *mutex)
{
    int err = gs_cc_shared_trylock(self, shared(mutex));
    if (!self || !(mutex->kind & PROTECTS) || (err && err != EOWNERDEAD))
        return err;
    int of_ceiling = gs_cc_ceiling_enter(self, mutex->ceiling);
    if (of_ceiling)
        gs_cc_shared_unlock(self, shared(mutex));
    return of_ceiling ? of_ceiling : err;
}

int gs_cc_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    struct mutex *one = mutex_of(mutex);
    struct thread *self = thread_self();
    if (is_shared(one))
        return try_shared(self, one);
    spin_lock(&one->lock);
    int err = try_lock(one, self);
    spin_unlock(&one->lock);
    return err ? EBUSY : 0;
}

int gs_cc_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                  const struct timespec *time)
{
    struct thread *self = thread_self();
    int err = 0;
    if (!is_known_clock(clock))
        return EINVAL;
    if (!self)
        return lock_outside(mutex_of(mutex));
    /* A time that is not needed need not be valid. */
    uint64_t deadline_ns = is_valid_time(time) ? gs_cc_from_clock(clock, time) : 1;
    if (lock_until(self, mutex_of(mutex), deadline_ns, &err))
        return 0;
    return err == ETIMEDOUT && !is_valid_time(time) ? EINVAL : err;
}

int gs_cc_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *time)
{
    return gs_cc_pthread_mutex_clocklock(mutex, CLOCK_REALTIME, time);
}

int gs_cc_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct mutex *one = mutex_of(mutex);
    if (is_shared(one))
        return unlock_shared(thread_self(), one);
    spin_lock(&one->lock);
    int err = 0;
    if (knows_owner(one) && !is_owner(one, thread_self()))
        err = EPERM;
    else if (!one->count) {
        hand_over(one);
        return 0;
    } else
        one->count--;
    spin_unlock(&one->lock);
    return err;
}

int gs_cc_pthread_mutex_consistent(pthread_mutex_t *mutex)
{
    struct mutex *one = mutex_of(mutex);
    return is_shared(one) ? gs_cc_shared_make_consistent(shared(one)) : EINVAL;
}

/* ---- Ceilings ---- */

int gs_cc_pthread_mutex_getprioceiling(const pthread_mutex_t *mutex, int *ret_ceiling)
{
    const struct mutex *one = (const struct mutex *)mutex;
    if (!(one->kind & PROTECTS))
        return EINVAL;
    *ret_ceiling = one->ceiling;
    return 0;
}

/* It is locked meanwhile, whatever its ceiling; the thread that has it gets the new one. */
int gs_cc_pthread_mutex_setprioceiling(pthread_mutex_t *mutex, int ceiling, int *ret_old)
{
    struct mutex *one = mutex_of(mutex);
    struct thread *self = thread_self();
    int err = 0, old = one->ceiling;
    if (!(one->kind & PROTECTS) || ceiling < sched_get_priority_min(SCHED_FIFO) ||
        ceiling > sched_get_priority_max(SCHED_FIFO))
        return EINVAL;
    bool has_it = self && one->holder.thread == gs_cc_shared_number(self);
    if (self && gs_cc_shared_lock(self, shared(one), GS_NEVER, &err))
        return 0;
    if (err)
        return err;
    if (has_it) {
        gs_cc_ceiling_leave(self, old);
        err = gs_cc_ceiling_enter(self, ceiling);
    }
    if (!err) {
        one->ceiling = (int16_t)ceiling;
        if (ret_old)
            *ret_old = old;
    }
    if (self)
        gs_cc_shared_unlock(self, shared(one));
    return err;
}
