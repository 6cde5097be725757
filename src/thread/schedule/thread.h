/* Threads and waits: the thread control block, the run queue, and how a wait begins and ends.
 * Workers and the runtime are in worker.h.
 *
 * A thread goes through these states, which differ by where it is:
 *
 *     spawned --> shared queue --> run queue --> running --> waiting --> its worker's run queue
 *                 (if several         ^   (dispatch) |  (wait_suspend)
 *                  workers)           |              |           `--> if it migrates: the shared
 *                                     +--- yield ----+                queue of the waker
 *                                                    |
 *                                                    `--> done --> joined; its stack is reused
 *                                                 (gs_thread_exit)
 *
 * A wait ends when its claim changes from CLAIM_WAITING to the outcome. To claim a thread means to
 * make this change; the kernel thread that has claimed it makes it ready. A parked thread is the
 * exception when it is unparked: the kernel thread that changes `park_state` from PARK_PARKED makes
 * it ready, and the claim stays CLAIM_WAITING, until the thread runs or, if it is mobile, is put
 * into a queue. A deadline or a cancellation changes both.
 *
 * A mobile thread is one that migrates while there are several workers.
 *
 * What differs among threads, and the tests of each combination (test_NAME.c below tests/thread):
 *
 *     stack           |  stays         |  migrates           |  has a thread pointer
 *     ----------------+----------------+---------------------+----------------------------------
 *     the runtime's   |  thread        |  monitor, lifetimes |  tls_base, of both
 *     shared          |  shared_stack  |  until it starts    |  no: it is the runtime's then
 *     the program's   |  thread        |  lifetimes, end     |  those of gossamer run
 *     none: resumable |  resumable     |  no                 |  no
 *
 * Tests that wait for descriptors are run with each poller (GS_POLLER in their CMakeLists.txt).
 *
 * off_stack.h has a table of all waits.
 *
 * Invariants:
 *   1. A thread in a run queue has left its stack, or its worker is about to leave it; and its
 *      `worker` is that queue's.
 *   2. A thread in a shared queue has left its stack, and has neither a worker nor a deadline.
 *   3. Only its worker times a thread out, cancels its wait, or runs it. A mobile thread is an
 *      exception: any kernel thread that holds the lock of its worker's deadlines may time it out
 *      or cancel its wait.
 *   4. A thread whose claim is CLAIM_WAITING is made ready only by the kernel thread that changes
 *      the claim, or that unparks it. One that claims without the lock of the object waited at must
 *      comply with 3. A mobile thread's claim becomes CLAIM_WAITING when it has left its stack, and
 *      before the object is unlocked.
 *   5. `current` is the thread whose stack the worker runs on; NULL: the worker's own stack.
 *   6. `ready` is the number of runnables in the worker's run queue.
 *   7. No spin lock is held across a switch. A mobile thread's is released right after it, on the
 *      next stack; another thread releases it before, as only its worker resumes it.
 */
#ifndef GS_THREAD_THREAD_H
#define GS_THREAD_THREAD_H

#include "thread/schedule/worker.h"

#include <errno.h>
#include <stddef.h>

/* State of a wait; when it is over, the result of the call: 0 or any -errno. */
enum claim {
    CLAIM_WOKEN = 0,
    CLAIM_WAITING = 1,
    CLAIM_NONE,    /* not waiting; after a non-mobile wait in a queue, the outcome stays */
    CLAIM_LEAVING, /* about to wait, but still on its stack */
    CLAIM_TIMED_OUT = -ETIMEDOUT,
    CLAIM_CANCELED = -ECANCELED,
};

/* Whether the thread is parked, or has a wake-up pending (gs_thread_park). */
enum park_state { PARK_EMPTY, PARK_NOTIFIED, PARK_PARKED };

/* FINISHED is 0, as is a control block whose memory was given back: gs_threads_cancel_all may have
 * found its thread live before. */
enum cancel_state { CANCEL_FINISHED, CANCEL_NONE, CANCEL_SENT, CANCEL_DELIVERED };

struct claimed;
struct thread_extra;

/* How a report finds the thread that holds the object waited at (deadlock.c). HOLDER_WRITER: the
 * wait of a reader. */
enum holder {
    HOLDER_UNKNOWN,
    HOLDER_THREAD,
    HOLDER_MUTEX,
    HOLDER_RWLOCK,
    HOLDER_WRITER,
    HOLDER_ONCE,
};

/* What wait_object is, for reports. */
enum waits_at { AT_OBJECT, AT_DESCRIPTOR, AT_SIGNAL };

/* The kind of object that a thread waits at. If waiters are queued at the object, the kind has the
 * offsets of its lock and queue: to time a wait out or cancel it includes removing the thread from
 * the queue. */
struct wait_kind {
    const char *name;    /* for reports */
    bool is_external;    /* the wake-up may come from outside the threads */
    bool ignores_cancel; /* a cancellation does not end the wait */
    bool has_queue;
    bool is_park;   /* it ends when park_state is no longer PARK_PARKED */
    uint8_t holder; /* enum holder */
    uint8_t at;     /* enum waits_at */
    uint16_t lock_offset, queue_offset;
    void *(*object)(const void *at); /* maps wait_object to the object. NULL: it is the object */
    /* Called when a wait was timed out or canceled, under the object's lock, after the thread was
     * removed from the queue. was_queued: it was still in the queue. Adds threads that can now
     * continue to `claimed`; they are made ready when the lock has been released. NULL: nothing to
     * do. The caller is the thread's worker, the monitor if that is stuck, or the thread itself if
     * it cannot wait. */
    void (*abandon)(void *object, struct gs_thread *thread, bool was_queued,
                    struct claimed *claimed);
};
#define WAITS_IN(type_, queue_)                                                                    \
    .has_queue = true, .lock_offset = offsetof(struct type_, lock),                                \
    .queue_offset = offsetof(struct type_, queue_)

#define NAME_SIZE 24

/* The thread control block, aligned to a cache line; on a stack of the program's own, above the
 * stack. The first line is used when the thread starts and ends; waiting and switching touch the
 * second and the third. It is small: a thread that waits long has hardly anything else. What few
 * threads need is in its `extra`, which stays when the thread has ended. */
struct gs_thread {
    union {
        struct gs_thread *joiner;
        struct gs_thread *next_free; /* after the thread has ended */
    };
    union {
        void *argument; /* until it starts */
        struct gs_cleanup *cleanups;
        void *result; /* when it has ended */
    };
    union {
        gs_thread_fn *fn; /* until it starts */
        struct gs_waiter *woken_by;
    };
    struct thread_extra *extra; /* thread_extra.h; NULL: none */
    union {
        struct gs_thread *next_canceled; /* in its worker's `canceled`; guarded by `cancel` */
        unsigned chain; /* in the report of a deadlock: the chain in which it was found */
    };
    char *stack_top;       /* the end of the stack; NULL: it has none yet */
    char *saved;           /* what is on its stack while that is another's (shared_stack.h) */
    uint32_t slot_index;   /* of its stack, in the class */
    uint16_t bound_worker; /* numbered from 1; 0: none */
    uint16_t select_start; /* where the next gs_select begins to try */

    struct runnable run;
    void *sp;
    struct worker *worker;   /* NULL: not started, or mobile and ready in a shared queue */
    atomic_int claim;        /* enum claim */
    uint32_t deadline_index; /* in its worker's deadlines; 0: not in there */
    /* The first eight are 0 in a new thread; adjacent, they are written together. */
    bool is_uncancelable;
    bool is_external;  /* it is counted in its worker's `external` */
    bool has_deadline; /* its wait */
    bool is_pinned; /* stays for now, though it migrates: it waits for something of its worker's */
    bool is_detached, is_done;
    struct gs_spin lock;     /* guards is_done, is_detached, joiner and watchers */
    atomic_uchar park_state; /* enum park_state */
    atomic_uchar cancel;     /* enum cancel_state */
    uint8_t stack_class;
    bool migrates, is_live;
    bool has_canary : 1;
    bool is_retired : 1;              /* it is not live, and its stack is not reused (fork.c) */
    bool shares_stack;                /* during a wait nobody may use its stack (stack_is_shared) */
    uint8_t shared_index, start_hash; /* shared_stack.c */

    const struct wait_kind *wait_kind;
    const void *wait_object;
    uint64_t wait_start_ns;
    /* Of the last wait that had a deadline; not earlier than the thread's key in the deadlines
     * of its worker. GS_NEVER: the thread is not in there. */
    uint64_t deadline_ns;
    struct gs_waiter waiter; /* for waits at one object; others have their own waiters */
    struct fiber fiber;
#ifdef GS_CHECKED
    atomic_uchar fate;        /* enum fate */
    bool is_blocked;          /* deadlock.c */
    atomic_bool is_protected; /* protected_stack.c */
#endif
};
_Static_assert(offsetof(struct gs_thread, run.next) == 64 &&
                   offsetof(struct gs_thread, wait_kind) == 128 &&
                   offsetof(struct gs_thread, fiber) == 192,
               "members that are used together share a cache line");

static inline struct gs_thread *thread_current(void)
{
    return worker_current()->current;
}

static inline bool thread_is_mobile(const struct gs_thread *thread)
{
    return thread->migrates && gs_runtime.is_multi;
}

/* The runnable must not be a message. */
static inline struct gs_thread *thread_of(struct runnable *runnable)
{
    return gs_container_of(runnable, struct gs_thread, run);
}

/* Other kernel threads may read it at the same time, to cancel the thread. */
static inline void thread_set_worker(struct gs_thread *thread, struct worker *worker)
{
    __atomic_store_n(&thread->worker, worker, __ATOMIC_SEQ_CST);
}

/* Prefetch the control block of a thread that is about to be woken. This and the next function are
 * always inlined: the compiler would drop calls of a function without side effects. */
static inline __attribute__((always_inline)) void thread_prefetch(const struct gs_thread *thread)
{
    __builtin_prefetch(&thread->run.next, 1);
    __builtin_prefetch(&thread->wait_kind, 1);
}

/* Prefetch the end of its stack: the frames of the blocking call and a part of their caller's. The
 * control block should be in the cache. */
#define STACK_LINES 6u
static inline __attribute__((always_inline)) void
thread_prefetch_stack(const struct gs_thread *thread)
{
    for (unsigned line = 0; line < STACK_LINES; line++)
        __builtin_prefetch((const void *)((uintptr_t)thread->sp + (size_t)line * 64), 1);
}

/* Threads that were created one after another often become ready in the same order, and their
 * control blocks are adjacent. So guess where that of a later one is, from two in succession; a
 * wrong guess does no harm. The guess is made of integers, for it may point anywhere. */
#define THREADS_AHEAD 5u
static inline __attribute__((always_inline)) void
thread_prefetch_ahead(const struct gs_thread *one, const struct gs_thread *next)
{
    uintptr_t ahead = (uintptr_t)next + THREADS_AHEAD * ((uintptr_t)next - (uintptr_t)one);
    for (unsigned line = 0; line < 3; line++)
        __builtin_prefetch((const void *)(ahead + (uintptr_t)line * 64), 1);
}

/* ---- Run queue ---- */

/* The resume functions of threads that are run from a worker's own stack only: they have a TLS base
 * (tls_base.c), or no stack at present (shared_stack.c; in the checked library, none
 * that may be used, protected_stack.c), or the address sanitizer is notified (asan_program.c). */
void gs_thread_resume_with_tls_base(struct worker *worker, struct runnable *runnable);
void gs_thread_resume_shared(struct worker *worker, struct runnable *runnable);
void gs_thread_resume_protected(struct worker *worker, struct runnable *runnable);
void gs_thread_resume_annotated(struct worker *worker, struct runnable *runnable);

/* The end of the thread's first frame; a dump asks for it while the thread may end. */
NOT_FOR_TSAN static inline char *thread_first_top(const struct gs_thread *thread)
{
    char *top = (char *)((uintptr_t)thread->stack_top & ~(uintptr_t)15);
    return UNLIKELY(thread->run.resume == gs_thread_resume_annotated) ? top - ASAN_RESERVE : top;
}

/* Whether the runnable is a message to the worker rather than a thread. */
static inline bool runnable_is_message(const struct runnable *runnable)
{
    return runnable->resume && runnable->resume != gs_thread_resume_with_tls_base &&
           runnable->resume != gs_thread_resume_shared &&
           !CHECKED_IS_PROTECTED_RESUME(runnable->resume) &&
           runnable->resume != gs_thread_resume_annotated;
}

/* HIGH, NORMAL, none, LOW. Computed at every wake-up. */
static inline unsigned level_of(uint8_t priority)
{
    return priority ^ 1u;
}
_Static_assert((GS_PRIORITY_HIGH ^ 1) == 0 && (GS_PRIORITY_NORMAL ^ 1) == 1 &&
                   (GS_PRIORITY_LOW ^ 1) == 3,
               "levels");

/* The level of most threads: where it is known, its queue is at a known place. */
enum { NORMAL_LEVEL = GS_PRIORITY_NORMAL ^ 1 };

static inline __attribute__((always_inline)) void
queue_push_level(struct worker *worker, struct runnable *runnable, unsigned level)
{
    struct run_queue *queue = &worker->queues[level];
    runnable->next = NULL;
    *queue->last = runnable;
    queue->last = &runnable->next;
    worker->ready_mask |= 1u << level;
}

/* (worker.c) It has another priority than most. */
void gs_queue_push_special(struct worker *worker, struct runnable *runnable);

static inline void queue_push(struct worker *worker, struct runnable *runnable)
{
    count_add(&worker->ready, 1);
    if (UNLIKELY(runnable->priority != GS_PRIORITY_NORMAL))
        gs_queue_push_special(worker, runnable);
    else
        queue_push_level(worker, runnable, NORMAL_LEVEL);
}

/* The level must not be empty. */
static inline struct runnable *queue_pop_level(struct worker *worker, unsigned level)
{
    struct run_queue *queue = &worker->queues[level];
    struct runnable *item = queue->first;
    count_add(&worker->ready, UINT64_MAX);
    queue->first = item->next;
    if (queue->first) {
        /* It may be a message, which has no stack: then something else is prefetched. */
        thread_prefetch_stack(thread_of(queue->first));
        if (queue->first->next)
            thread_prefetch(thread_of(queue->first->next));
    } else {
        queue->last = &queue->first;
        worker->ready_mask &= ~(1u << level);
    }
    return item;
}

static inline struct runnable *queue_pop(struct worker *worker)
{
    if (UNLIKELY(!worker->ready_mask))
        return NULL;
    return queue_pop_level(worker, (unsigned)__builtin_ctz(worker->ready_mask));
}

/* ---- Waiting (wait.c) ---- */

struct wait {
    const struct wait_kind *kind;
    const void *object;
    uint64_t deadline_ns;
};

/* Wait until the calling thread is claimed; wait.h says which of the wait functions to call when.
 * The caller holds `lock`, under which the thread was queued; it is released. NULL: no lock.
 * Returns 0, -ETIMEDOUT, -ECANCELED or -ENOMEM; on failure the caller removes the thread from the
 * queue, if it is still in there. */
int gs_thread_wait(struct gs_thread *self, struct gs_spin *lock, const struct wait *wait);

/* Wait until the calling thread is claimed. then(argument) is called when the thread has left its
 * stack, or at once if it must not wait: it unlocks the queues, or starts what the thread waits
 * for. Returns what gs_thread_wait returns. */
int gs_thread_wait_then(struct gs_thread *self, void (*then)(void *), void *argument,
                        const struct wait *wait);

/* Set whether the thread is counted as waiting for an external event. The flag stays when the wait
 * is over, until the thread waits for something else or ends: the count matters only when no thread
 * is ready. */
static inline void thread_count_external(struct worker *worker, struct gs_thread *thread,
                                         bool is_external)
{
    if (LIKELY(thread->is_external == is_external))
        return;
    thread->is_external = is_external;
    count_add(&worker->external, is_external ? 1 : UINT64_MAX);
}

/* End the parking of a thread whose wait is to end by its deadline or by cancellation. Returns
 * false if an unpark has ended it before: *parked is then PARK_NOTIFIED. Relaxed: the claim orders
 * the rest. */
static inline bool thread_clear_parked(struct gs_thread *thread, uint8_t *parked)
{
    return atomic_compare_exchange_strong_explicit(&thread->park_state, parked, PARK_EMPTY,
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* End the thread's wait with the outcome `claim`, unless its wait has ended already. The caller
 * holds the lock of the object waited at or of the deadlines (invariant 3), or is the thread's
 * worker. If this returns true, the caller makes the thread ready. Relaxed: the caller has what the
 * thread wrote before from the lock of the object, which is released after the claim has become
 * CLAIM_WAITING, or by an acquire of that claim (time_out, claim_canceled). */
static inline bool thread_claim(struct gs_thread *thread, int claim)
{
    int waiting = CLAIM_WAITING;
    gs_chaos(CHAOS_CLAIM);
    if (gs_runtime.is_multi)
        return atomic_compare_exchange_strong_explicit(&thread->claim, &waiting, claim,
                                                       memory_order_relaxed, memory_order_relaxed);
    if (atomic_load_explicit(&thread->claim, memory_order_relaxed) != CLAIM_WAITING)
        return false;
    atomic_store_explicit(&thread->claim, claim, memory_order_relaxed);
    return true;
}

/* Make the thread ready: put it into its worker's run queue or inbox or, if it is mobile, into a
 * shared queue. May be called by any kernel thread. */
void gs_thread_make_ready_slow(struct gs_thread *thread);

/* Make the thread ready; worker: the caller. Inline if the thread stays on this worker, which with
 * one worker each thread does, whether or not it migrates. */
static inline void thread_make_ready(struct worker *worker, struct gs_thread *thread)
{
    if (LIKELY(thread->worker == worker && !thread_is_mobile(thread)))
        queue_push(worker, &thread->run);
    else
        gs_thread_make_ready_slow(thread);
}

/* Make the thread ready; worker: the caller, or NULL if it is no worker. */
static inline void thread_make_ready_from(struct worker *worker, struct gs_thread *thread)
{
    if (LIKELY(worker))
        thread_make_ready(worker, thread);
    else
        gs_thread_make_ready_slow(thread);
}

/* Put a ready thread into this worker's run queue or, if it is mobile, where it may be taken. */
void gs_thread_enqueue(struct worker *worker, struct gs_thread *thread);

/* Cancel the thread's wait, if it waits and a cancellation may end the wait. Called by its
 * worker. */
void gs_thread_cancel_wait(struct worker *worker, struct gs_thread *thread);

/* Remove a thread whose wait was timed out or canceled from the queue of its object. Called after
 * it was claimed and before it is made ready. The caller holds no lock. */
void gs_thread_abandon_wait(struct gs_thread *thread);

static inline bool thread_is_waiting(const struct gs_thread *thread)
{
    return atomic_load_explicit(&thread->claim, memory_order_relaxed) == CLAIM_WAITING;
}

/* Whether a cancellation may end the wait of the thread, if it waits. */
static inline bool thread_wait_is_cancelable(const struct gs_thread *thread)
{
    return !thread->is_uncancelable && !thread->wait_kind->ignores_cancel;
}

/* ---- Deadlines (deadlines.c) ---- */

/* Also called in the child of a fork, to forget those of others. */
void gs_deadlines_init(struct worker *worker);
void gs_deadlines_done(struct worker *worker);

/* Time the calling thread out at deadline_ns, which is earlier than its last deadline. Returns 0 or
 * -ENOMEM. */
int gs_deadline_start(struct gs_thread *thread, uint64_t deadline_ns);

/* Called by a thread that ends. */
void gs_deadline_stop(struct gs_thread *thread);

/* The caller holds the lock, if there are several workers. */
static inline void deadline_remove(struct deadlines *deadlines, struct gs_thread *thread)
{
    gs_timer_queue_remove(&deadlines->queue, &thread->deadline_index);
    __atomic_store_n(&thread->deadline_ns, GS_NEVER, __ATOMIC_RELAXED);
}

/* Time out the mobile threads whose deadline has passed, if the worker is stuck. Called by the
 * monitor. Returns how many there were. */
unsigned gs_deadlines_expire_for_stuck(struct worker *worker, uint64_t now_ns);

/* ---- Waits of mobile threads (mobile_wait.c) ---- */

/* Make a mobile thread ready, on any worker; a pinned one on its own. worker: the caller, or NULL
 * if it is no worker. */
void gs_thread_make_ready_mobile(struct worker *worker, struct gs_thread *thread);

/* Cancel the wait of a mobile thread, if it waits on this worker and a cancellation may end the
 * wait. May be called by any kernel thread. If this returns true, the thread was claimed, and the
 * caller makes it ready. */
bool gs_mobile_cancel_wait(struct worker *worker, struct gs_thread *thread);

/* ---- Thread pointers (tls_base.c) ---- */

/* Set the TLS base of a new thread, which would use its worker's otherwise. */
void gs_thread_set_tls_base(struct gs_thread *thread, void *base);
bool gs_tls_bases_are_supported(const struct gs_thread_attributes *attributes);

void gs_worker_restore_tls_base(struct worker *worker);

/* Called on the next stack, before the thread that left its stack can run elsewhere, or can be
 * joined and its thread-local storage be freed. The calling function must not compare a canary of
 * the stack protector. */
static inline void worker_left_thread(struct worker *worker)
{
    if (UNLIKELY(worker->has_thread_tls_base))
        gs_worker_restore_tls_base(worker);
}

/* ---- The start and the end of a thread (thread.c) ---- */

/* Where a thread that shares its stack starts, whose place on it is free now. */
void *gs_thread_initial_context(struct gs_thread *thread);

/* gs_thread_spawn in two steps: between them, the thread is in no queue and does not run. worker:
 * the caller. */
int gs_thread_create_detached(struct worker *worker, const struct gs_thread_attributes *attributes,
                              gs_thread_fn *fn, void *argument, struct gs_thread **ret_thread);
void gs_thread_start(struct worker *worker, struct gs_thread *thread);

void gs_thread_complete(struct worker *worker, struct gs_thread *thread);

/* ---- Cancellation (cancel.c) ---- */

/* Whether a wait of the thread must return -ECANCELED. gs_thread_is_canceled does not consider
 * whether the thread is cancelable. */
static inline bool thread_must_cancel(const struct gs_thread *thread)
{
    /* Sequentially consistent, like thread_set_worker before: gs_thread_cancel first sets the state
     * and then reads the thread's worker. So that one delivers the cancellation, or the thread
     * finds that it was canceled. */
    unsigned state = atomic_load(&thread->cancel);
    return UNLIKELY(state != CANCEL_NONE) && !thread->is_uncancelable;
}

/* The worker has threads in `canceled`: deliver these cancellations on its own stack. */
void gs_cancels_enqueue(struct worker *worker);

/* Called by the monitor: deliver those of a stuck worker that can be delivered in its place. */
void gs_cancels_deliver_for_stuck(struct worker *owner);

/* gs_thread_cancel in two steps. The first returns false if the thread was canceled before;
 * otherwise the caller must take the second: the thread is not completed until then. */
bool gs_thread_mark_canceled(struct gs_thread *thread);
void gs_thread_deliver_cancel(struct worker *worker, struct gs_thread *thread);

/* Cancel a thread that was not made ready yet; gs_threads_cancel_all may do so, too. */
void gs_thread_cancel_new(struct gs_thread *thread);

/* Called when the thread has become live: cancel it if gs_threads_cancel_all is in progress. */
void gs_thread_check_cancel_all(struct gs_thread *thread);

/* ---- Cleanups and values (thread_values.c) ---- */

void gs_thread_run_cleanups(struct gs_thread *thread);
void gs_thread_destroy_values(struct gs_thread *thread);

/* ---- Invariants (invariants.c) ---- */

/* Assert the invariants above, as far as one worker can check them. Called by a user thread, in
 * tests. */
void gs_threads_check(void);

#endif
