/* Synchronisation of user threads: mutex, condition, reader-writer lock, semaphore, once, barrier,
 * wait group, channels and select.
 *
 *     static struct gs_mutex mutex;                      all zero is ready for use
 *     gs_mutex_lock(&mutex, GS_NEVER);
 *     while (!ready)
 *         err = gs_cond_wait(&cond, &mutex, gs_clock_now() + GS_SECOND);
 *     gs_mutex_unlock(&mutex);
 *
 * Who waits first goes first: what is released is handed to the thread that has waited longest, and
 * nobody overtakes it. All are for user threads, of any worker; a kernel thread of the program's own
 * wakes user threads with gs_thread_unpark or starts one. They are in the caller's storage, start
 * all zero, need no end, and may be freed when nobody is in a call with them. No call fails for want
 * of memory, except gs_channel_new and a wait with a deadline, which may return -ENOMEM.
 *
 * Waits return 0, -ETIMEDOUT, or -ECANCELED, as told in thread.h.
 */
#ifndef GOSSAMER_SYNC_H
#define GOSSAMER_SYNC_H

#include <assert.h>
#include <gossamer/thread.h>
#include <stdatomic.h>

/* ---- What they are made of; their members are the library's ---- */

struct gs_waiter {
    struct gs_waiter *next;
    struct gs_waiter *previous; /* NULL: in no queue; of the first: none, but not NULL */
    struct gs_thread *thread;
    void *item;
    int64_t value;
};
struct gs_wait_queue {
    struct gs_waiter *first; /* NULL: empty */
    struct gs_waiter *last;  /* if not empty */
};
struct gs_spin {
    atomic_bool held;
};

/* ---- Mutex ---- */

struct gs_mutex {
    _Atomic(uintptr_t) owner; /* an address of the thread's; lowest bit: others wait */
    struct gs_spin lock;
    struct gs_wait_queue waiting;
};

/* Not interrupted by cancellation: with GS_NEVER it returns 0. -EDEADLK: the caller has it. */
static inline int gs_mutex_lock(struct gs_mutex *mutex, uint64_t deadline_ns);
static inline void gs_mutex_unlock(struct gs_mutex *mutex);
GS_API bool gs_mutex_is_mine(const struct gs_mutex *mutex);

/* ---- Condition ---- */

struct gs_cond {
    struct gs_spin lock;
    struct gs_wait_queue waiting;
};

/* The mutex is released while waiting, and locked again in any case. It may be NULL where threads
 * share what they wait for without one: on one worker they are only switched when they wait. Wakes
 * only when signalled, but another thread may have been there first. */
GS_API GS_MUST_CHECK int gs_cond_wait(struct gs_cond *cond, struct gs_mutex *mutex,
                                      uint64_t deadline_ns);

/* Wake the one that has waited longest; all. */
GS_API void gs_cond_signal(struct gs_cond *cond);
GS_API void gs_cond_broadcast(struct gs_cond *cond);

/* ---- Reader-writer lock: neither readers nor writers are starved ---- */

struct gs_rwlock {
    struct gs_spin lock;
    unsigned readers;
    bool has_writer;
    uintptr_t holders; /* exclusive or of the threads', for reports */
    struct gs_wait_queue waiting;
};
GS_API GS_MUST_CHECK int gs_rwlock_read(struct gs_rwlock *rwlock, uint64_t deadline_ns);
GS_API GS_MUST_CHECK int gs_rwlock_write(struct gs_rwlock *rwlock, uint64_t deadline_ns);

/* Of either kind. */
GS_API void gs_rwlock_unlock(struct gs_rwlock *rwlock);

/* ---- Semaphore ---- */

struct gs_semaphore {
    struct gs_spin lock;
    uint64_t count; /* may be set before use */
    struct gs_wait_queue waiting;
};
GS_API GS_MUST_CHECK int gs_semaphore_wait(struct gs_semaphore *semaphore, uint64_t deadline_ns);
GS_API void gs_semaphore_post(struct gs_semaphore *semaphore);

/* ---- Once ---- */

struct gs_once {
    atomic_int state;
    struct gs_spin lock;
    struct gs_thread *runner; /* of fn, for reports */
    struct gs_wait_queue waiting;
};

/* The first caller runs fn; the others go on when it is done. Not interrupted by cancellation. */
GS_API void gs_once(struct gs_once *once, void (*fn)(void *argument), void *argument);

/* ---- Barrier ---- */

struct gs_barrier {
    struct gs_spin lock;
    unsigned threads; /* that it takes; to be set before use */
    unsigned arrived;
    struct gs_wait_queue waiting;
};

/* Wait until all have come. Returns 1 in the last, 0 in the others; after -ETIMEDOUT or -ECANCELED
 * the caller has not come. */
GS_API GS_MUST_CHECK int gs_barrier_wait(struct gs_barrier *barrier, uint64_t deadline_ns);

/* ---- Wait group: until as many are done as were added ---- */

struct gs_wait_group {
    struct gs_spin lock;
    uint64_t count;
    struct gs_wait_queue waiting;
};
GS_API void gs_wait_group_add(struct gs_wait_group *group, uint64_t count);
GS_API void gs_wait_group_done(struct gs_wait_group *group);
GS_API GS_MUST_CHECK int gs_wait_group_wait(struct gs_wait_group *group, uint64_t deadline_ns);

/* ---- Channels: items of one size, copied from sender to receiver ---- */

struct gs_channel;

/* capacity: items that can be sent ahead of a receiver; 0: each send waits for its receiver.
 * Returns 0 or -ENOMEM. Any kernel thread. */
GS_API GS_MUST_CHECK int gs_channel_new(size_t item_size, size_t capacity,
                                        struct gs_channel **ret_channel);

/* Nobody is in a call with it. NULL is accepted. */
GS_API void gs_channel_free(struct gs_channel *channel);

/* Return 0, -ETIMEDOUT, -ECANCELED, or -EPIPE: it was closed; of a receive: and is empty. */
GS_API GS_MUST_CHECK int gs_channel_send(struct gs_channel *channel, const void *item,
                                         uint64_t deadline_ns);
GS_API GS_MUST_CHECK int gs_channel_receive(struct gs_channel *channel, void *ret_item,
                                            uint64_t deadline_ns);

/* No more sends: those that wait fail, receivers get what is left. */
GS_API void gs_channel_close(struct gs_channel *channel);

/* One of several sends and receives: whichever is possible first. */
struct gs_select {
    struct gs_channel *channel;
    const void *send; /* the item to send; NULL: receive */
    void *receive;    /* where the received item goes */
    int result;       /* of the one that was done: 0 or -EPIPE */

    struct gs_waiter waiter; /* the library's */
    unsigned order;
};

/* Does exactly one, and returns its index; of several that are possible, any. Or returns -ETIMEDOUT,
 * -ECANCELED, -ENOMEM or -EINVAL (no case) and does none. A channel may occur more than once. */
GS_API GS_MUST_CHECK int gs_select(struct gs_select *cases, unsigned count, uint64_t deadline_ns);

/* ---- Inline bodies: a mutex that nobody else wants costs no call ---- */

#define GS_MUTEX_WAITED ((uintptr_t)1)

GS_API int gs_mutex_lock_slowly(struct gs_mutex *mutex, uint64_t deadline_ns);
GS_API void gs_mutex_unlock_slowly(struct gs_mutex *mutex);

/* There are several workers: what they share is changed by atomic operations. */
extern GS_API bool gs_threads_are_several;

/* Acquire: pairs with the release in gs_mutex_unlock, and where the mutex is handed on. */
static inline bool gs_mutex_take(struct gs_mutex *mutex, uintptr_t owner)
{
    uintptr_t nobody = 0;
    if (gs_threads_are_several)
        return atomic_compare_exchange_strong_explicit(&mutex->owner, &nobody, owner,
                                                       memory_order_acquire, memory_order_relaxed);
    if (atomic_load_explicit(&mutex->owner, memory_order_relaxed))
        return false;
    atomic_store_explicit(&mutex->owner, owner, memory_order_relaxed);
    return true;
}

static inline int gs_mutex_lock(struct gs_mutex *mutex, uint64_t deadline_ns)
{
    if (__builtin_expect(gs_mutex_take(mutex, (uintptr_t)__builtin_frame_address(0)), 1))
        return 0;
    return gs_mutex_lock_slowly(mutex, deadline_ns);
}

/* True: others wait. */
static inline bool gs_mutex_release(struct gs_mutex *mutex)
{
    if (gs_threads_are_several)
        return __atomic_and_fetch((uintptr_t *)&mutex->owner, GS_MUTEX_WAITED, __ATOMIC_RELEASE);
    uintptr_t waited = atomic_load_explicit(&mutex->owner, memory_order_relaxed) & GS_MUTEX_WAITED;
    atomic_store_explicit(&mutex->owner, waited, memory_order_relaxed);
    return waited;
}

static inline void gs_mutex_unlock(struct gs_mutex *mutex)
{
    assert(gs_mutex_is_mine(mutex));
    if (__builtin_expect(gs_mutex_release(mutex), 0))
        gs_mutex_unlock_slowly(mutex);
}

#endif
