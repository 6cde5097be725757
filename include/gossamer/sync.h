/* Synchronization of user threads: mutex, condition, reader-writer lock, semaphore, once, barrier,
 * wait group, channels and select.
 *
 *     static struct gs_mutex mutex;                      all zero is ready for use
 *     gs_mutex_lock(&mutex, GS_NEVER);
 *     while (!ready)
 *         err = gs_cond_wait(&cond, &mutex, gs_clock_now() + GS_SECOND);
 *     gs_mutex_unlock(&mutex);
 *
 * Waiters are served in FIFO order: an object is handed to the thread that has waited longest, and
 * no thread overtakes it. Except for channels, the objects are in the caller's storage, start all
 * zero and need no destructor. Only gs_channel_new, gs_select, waits with a deadline, and waits at
 * a channel by a thread whose stack is shared can return -ENOMEM.
 *
 * Threads: all functions may be called by user threads of any worker. A kernel thread that is no
 * worker wakes user threads with gs_thread_unpark, or spawns one.
 *
 * Lifetime: an object may be freed or reused once no thread is using it. A call that wakes others
 * (unlock, signal, post, done, send, ...) no longer uses the object when one of the threads that it
 * has woken has returned from its wait, even if the call itself has not returned yet. A wait uses
 * the object until it returns, with or without success. So the last thread to leave may free the
 * object, and it may be on the stack of the thread that waits:
 *
 *     struct gs_wait_group group = {0};
 *     gs_wait_group_add(&group, 1);
 *     err = gs_thread_spawn(NULL, work_and_call_done, &group, NULL);
 *     err = gs_wait_group_wait(&group, GS_NEVER);      group may be freed when this returns
 *
 * Each wait returns 0, -ETIMEDOUT, -ECANCELED or -ENOMEM (only with a deadline).
 */
#ifndef GOSSAMER_SYNC_H
#define GOSSAMER_SYNC_H

#include <assert.h>
#include <gossamer/thread.h>
#include <sys/select.h>

GS_BEGIN_DECLS

/* ---- Building blocks; their members are private to the library ---- */

struct gs_waiter {
    struct gs_waiter *next;
    struct gs_waiter *previous; /* NULL: not queued; in the first waiter: not NULL, but unused */
    struct gs_thread *thread;
    union {
        void *item;
        int64_t value;
    };
};
struct gs_wait_queue {
    struct gs_waiter *first; /* NULL: the queue is empty */
    struct gs_waiter *last;  /* if the queue is not empty */
};
struct gs_spin {
    GS_ATOMIC_MEMBER(bool) held;
};

/* ---- Mutex: one thread at a time ---- */

struct gs_mutex {
    GS_ATOMIC_MEMBER(uintptr_t) owner; /* an address of the owner's; lowest bit: contended */
    struct gs_spin lock;
    struct gs_wait_queue waiting;
};

/* Lock the mutex. Not interrupted by cancellation. Returns 0, -ETIMEDOUT, -ENOMEM (only with a
 * deadline), or -EDEADLK (the caller owns the mutex). */
static inline int gs_mutex_lock(struct gs_mutex *mutex, uint64_t deadline_ns);

/* Unlock the mutex, which the caller must own. */
static inline void gs_mutex_unlock(struct gs_mutex *mutex);

/* Returns whether the calling thread owns the mutex. */
GS_API bool gs_mutex_is_owned(const struct gs_mutex *mutex);

/* ---- Condition: a wait until the state that a mutex protects changes ---- */

struct gs_cond {
    struct gs_spin lock;
    struct gs_wait_queue waiting;
};

/* Wait for a signal. The mutex is released meanwhile, and locked again in any case. It may be NULL
 * if the threads run on one worker, where they are only switched when they wait. There are no
 * spurious wake-ups, but another thread may have changed the state before this one runs. */
GS_API GS_MUST_CHECK int gs_cond_wait(struct gs_cond *cond, struct gs_mutex *mutex,
                                      uint64_t deadline_ns);

/* Wake the thread that has waited longest. */
GS_API void gs_cond_signal(struct gs_cond *cond);

/* Wake all threads that wait. */
GS_API void gs_cond_broadcast(struct gs_cond *cond);

/* ---- Reader-writer lock: neither readers nor writers are starved ----
 *
 *     if (!gs_rwlock_rdlock(&rwlock, GS_NEVER)) {
 *         value = find(table, key);
 *         gs_rwlock_unlock(&rwlock);
 *     }
 */

struct gs_rwlock {
    struct gs_spin lock;
    unsigned readers;
    bool has_writer;
    uintptr_t holders; /* exclusive or of their addresses, for reports */
    struct gs_wait_queue waiting;
};

/* Lock as one of several readers. */
GS_API GS_MUST_CHECK int gs_rwlock_rdlock(struct gs_rwlock *rwlock, uint64_t deadline_ns);

/* Lock as the only writer. */
GS_API GS_MUST_CHECK int gs_rwlock_wrlock(struct gs_rwlock *rwlock, uint64_t deadline_ns);

/* Unlock, as a reader or a writer; by the thread that has locked. */
GS_API void gs_rwlock_unlock(struct gs_rwlock *rwlock);

/* ---- Semaphore: a limited number of threads at a time ---- */

struct gs_semaphore {
    struct gs_spin lock;
    uint64_t count; /* initial value: may be set before use */
    struct gs_wait_queue waiting;
};

/* Wait until the count is positive, and decrement it. */
GS_API GS_MUST_CHECK int gs_semaphore_wait(struct gs_semaphore *semaphore, uint64_t deadline_ns);

/* Increment the count, or wake the thread that has waited longest. */
GS_API void gs_semaphore_post(struct gs_semaphore *semaphore);

/* ---- Once: a function that is called one time only ----
 *
 *     static struct gs_once once;
 *     gs_once(&once, load_tables, NULL);
 */

struct gs_once {
    GS_ATOMIC_MEMBER(int) state;
    struct gs_spin lock;
    struct gs_thread *runner; /* the thread that runs fn, for reports */
    struct gs_wait_queue waiting;
};

/* The first caller runs fn; others wait until it has returned. Not interrupted by cancellation. */
GS_API void gs_once(struct gs_once *once, void (*fn)(void *argument), void *argument);

/* ---- Barrier: threads wait for each other ----
 *
 *     static struct gs_barrier barrier = {.threads = 4};
 *     if (gs_barrier_wait(&barrier, GS_NEVER) == 1)
 *         merge_results();
 */

struct gs_barrier {
    struct gs_spin lock;
    unsigned threads; /* how many threads must arrive; must be set before use */
    unsigned arrived;
    struct gs_wait_queue waiting;
};

/* Wait until all threads have arrived. Returns 1 in the last one, 0 in the others, -ETIMEDOUT,
 * -ECANCELED or -ENOMEM (only with a deadline); after an error the caller is not counted. */
GS_API GS_MUST_CHECK int gs_barrier_wait(struct gs_barrier *barrier, uint64_t deadline_ns);

/* ---- Wait group: waits until all tasks that were added are done ---- */

struct gs_wait_group {
    struct gs_spin lock;
    uint64_t count;
    struct gs_wait_queue waiting;
};

/* Add tasks. */
GS_API void gs_wait_group_add(struct gs_wait_group *group, uint64_t count);

/* Report that one task is done. */
GS_API void gs_wait_group_done(struct gs_wait_group *group);

/* Wait until all tasks are done. */
GS_API GS_MUST_CHECK int gs_wait_group_wait(struct gs_wait_group *group, uint64_t deadline_ns);

/* ---- Channels: items of one size, copied from sender to receiver ---- */

struct gs_channel;

/* Create a channel. capacity: how many items it buffers; 0: each send waits for its receiver. Any
 * kernel thread; this function, gs_channel_drain and gs_channel_free may also be called while no
 * user threads run. Returns 0 or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_channel_new(size_t item_size, size_t capacity,
                                        struct gs_channel **ret_channel);

/* Free the channel. No thread may be using it. NULL is accepted. Any kernel thread. */
GS_API void gs_channel_free(struct gs_channel *channel);

/* Remove the items that the channel buffers, and call fn with each, the oldest first: before
 * gs_channel_free, for items that own something. No thread may be using the channel. Any kernel
 * thread. */
GS_API void gs_channel_drain(struct gs_channel *channel, void (*fn)(void *item, void *argument),
                             void *argument);

/* Copy an item into the channel, or out of it. Each returns 0, -ETIMEDOUT, -ECANCELED, -ENOMEM
 * (only with a deadline, or if the caller's stack is shared), or -EPIPE (the channel was closed
 * and, for a receive, is empty). */
GS_API GS_MUST_CHECK int gs_channel_send(struct gs_channel *channel, const void *item,
                                         uint64_t deadline_ns);
GS_API GS_MUST_CHECK int gs_channel_receive(struct gs_channel *channel, void *ret_item,
                                            uint64_t deadline_ns);

/* Close the channel: waiting and later sends fail with -EPIPE; receivers get the remaining
 * items. */
GS_API void gs_channel_close(struct gs_channel *channel);

/* ---- Select: the first of several events ----
 *
 *     struct gs_select cases[] = {{.channel = jobs, .receive = &job},
 *                                 {.fd = socket, .events = GS_READ},
 *                                 {.child = pid},
 *                                 {.thread = helper},
 *                                 {.signals = &interrupt_or_hangup}};
 *     if (gs_select(cases, 5, deadline_ns) == 0 && !cases[0].result)
 *         run(&job);
 */

/* A case of gs_select: a send or a receive if `channel` is set; otherwise the end of a user thread
 * if `thread` is, a descriptor that becomes ready if `events` is, one of several signals if
 * `signals` is, the end of a child if `child` is.
 *
 * A thread that has ended is not joined by this: gs_thread_join then returns at once. Several calls
 * may wait for the end of the same thread; it is joined or detached after they have returned.
 *
 * The signals must be blocked in all kernel threads, as for sigwait(3): by pthread_sigmask before
 * gs_threads_run. A signal then stays pending until a call takes it, even between two calls. If
 * several calls wait for it, it is unspecified which one takes it. A signal that is sent to a
 * kernel thread rather than to the process, as by raise(3), is only seen by user threads of that
 * worker. Child processes inherit the mask. */
struct gs_select {
    struct gs_channel *channel;
    const void *send; /* the item to send; NULL: receive */
    void *receive;    /* the destination of a received item */
    /* Of the case that was done. A channel: 0 or -EPIPE; a descriptor: which of the events are
     * possible, or both after gs_close or an error; signals: the number of the one that was taken;
     * a child: its status as from waitpid(2), or -ECHILD (no such child); a thread: 0. */
    int result;

    struct gs_waiter waiter; /* this and the next are private to the library */
    unsigned order;

    int fd;
    uint8_t events; /* GS_READ, GS_WRITE (loop_io.h) */
    pid_t child;
    const sigset_t *signals;
    struct gs_thread *thread;
};

/* Wait until one of the cases is possible, and do exactly one of these. The others remain as they
 * are: a child is not reaped, a signal stays pending, no item is moved, no thread is joined. A
 * channel or a thread may occur in several cases. A call that has waited uses all of its channels
 * and threads until it returns. A case for a child or for signals needs a file descriptor during a
 * call that waits. Returns the index of the case that was done; if none was, -ETIMEDOUT,
 * -ECANCELED, -ENOMEM, -EINVAL (there are no cases, or one is empty), -EDEADLK (the thread is the
 * caller), -EBADF (a descriptor is negative), -EMFILE, -ENFILE, or the error with which the kernel
 * refuses to watch a descriptor. */
GS_API GS_MUST_CHECK int gs_select(struct gs_select *cases, unsigned count, uint64_t deadline_ns);

/* ---- Inline bodies: an uncontended mutex needs no call ---- */

#define GS_MUTEX_CONTENDED ((uintptr_t)1)

/* Called by gs_mutex_lock and gs_mutex_unlock if the mutex is contended; not for programs. Returns
 * the same as gs_mutex_lock. */
GS_API int gs_mutex_lock_slow(struct gs_mutex *mutex, uint64_t deadline_ns);
GS_API void gs_mutex_unlock_slow(struct gs_mutex *mutex);

/* Whether the calling thread owns the mutex; the library gossamer_checked stops if it does not. */
GS_API bool gs_mutex_may_unlock(const struct gs_mutex *mutex);

/* Bits of gs_threads_mode. */
#define GS_THREADS_MULTI 1u           /* several workers: atomic operations are needed */
#define GS_THREADS_ON_WORKER_STACK 2u /* one worker, in gs_thread_call_on_worker_stack */
#define GS_THREADS_NO_GS 4u           /* the GS base of x86-64 does not point to the worker */
#define GS_THREADS_SHARED_STACKS 8u   /* one worker: addresses on a stack identify no thread */
extern GS_API unsigned gs_threads_mode;

/* The owner of a mutex is usually identified by any address on its stack, which costs nothing to
 * find. On the worker's stack, or on one that threads share, that would identify no thread; there,
 * and with several workers, where this costs little beside an atomic operation, it is the address
 * of the thread, the second member of what the GS base points to. */
static inline uintptr_t gs_mutex_self(void)
{
#ifdef __x86_64__
    if (__builtin_expect(!(gs_threads_mode & GS_THREADS_NO_GS), 1)) {
        uintptr_t self;
        __asm__ volatile("movq %%gs:8, %0" : "=r"(self));
        return self;
    }
#endif
    return (uintptr_t)gs_thread_self();
}

/* With one worker: no other thread can interfere. */
static inline bool gs_mutex_try_acquire_single(struct gs_mutex *mutex, uintptr_t owner)
{
    uintptr_t *word = (uintptr_t *)&mutex->owner;
    if (__atomic_load_n(word, __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(word, owner, __ATOMIC_RELAXED);
    return true;
}

/* Acquire: pairs with the release in gs_mutex_release, and in gs_mutex_unlock_slow. */
static inline bool gs_mutex_try_acquire(struct gs_mutex *mutex, uintptr_t owner)
{
    uintptr_t none = 0;
    if (!(gs_threads_mode & GS_THREADS_MULTI))
        return gs_mutex_try_acquire_single(mutex, owner);
    return __atomic_compare_exchange_n((uintptr_t *)&mutex->owner, &none, owner, false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline int gs_mutex_lock(struct gs_mutex *mutex, uint64_t deadline_ns)
{
    bool is_acquired =
        __builtin_expect(!gs_threads_mode, 1)
            ? gs_mutex_try_acquire_single(mutex, (uintptr_t)__builtin_frame_address(0))
            : gs_mutex_try_acquire(mutex, gs_mutex_self());
    return __builtin_expect(is_acquired, 1) ? 0 : gs_mutex_lock_slow(mutex, deadline_ns);
}

/* Returns true if the mutex is contended. */
static inline bool gs_mutex_release(struct gs_mutex *mutex)
{
    uintptr_t *word = (uintptr_t *)&mutex->owner;
    if (gs_threads_mode & GS_THREADS_MULTI)
        return __atomic_and_fetch(word, GS_MUTEX_CONTENDED, __ATOMIC_RELEASE);
    uintptr_t contended = __atomic_load_n(word, __ATOMIC_RELAXED) & GS_MUTEX_CONTENDED;
    __atomic_store_n(word, contended, __ATOMIC_RELAXED);
    return contended;
}

static inline void gs_mutex_unlock(struct gs_mutex *mutex)
{
#ifdef GS_CHECKED
    (void)gs_mutex_may_unlock(mutex); /* also with NDEBUG */
#endif
    assert(gs_mutex_may_unlock(mutex));
    if (__builtin_expect(gs_mutex_release(mutex), 0))
        gs_mutex_unlock_slow(mutex);
}

GS_END_DECLS

#endif
