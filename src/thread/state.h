/* Threads, workers and the runtime, and what their files ask of each other.
 *
 * A worker is a kernel thread with an event loop and a run queue, which are used by nobody else. What other workers and kernel
 * threads have for it, they leave in its inbox. A thread goes through these states, which are told apart by where it stands:
 *
 *     spawned ---> shared queue ---> run queue ---> running ---> waiting ---> run queue (its worker's)
 *                  (several workers)    ^  (dispatch)  |  (thread_wait)   |
 *                                       +---- yield ---+                  +--> shared queue of whoever wakes it, if it migrates
 *                                                      |
 *                                                      +--> done (gs_thread_exit) --> joined, its stack kept for reuse
 *
 * Invariants:
 *   1. A thread in a run queue has left its stack, and its `worker` is that queue's.
 *   2. A thread in a shared queue has left its stack, has no worker unless it is new to the queue, and no deadline.
 *   3. Only its worker starts or stops a thread's timer, times it out, cancels its wait, or runs it. Of a mobile thread (one that
 *      migrates, while there are several workers), which has no timer but may stand in its worker's deadlines, anybody who
 *      holds the lock of these may time it out or cancel its wait.
 *   4. A thread whose claim is CLAIM_WAITING is made ready by whoever changes the claim, and by nobody else; who changes it
 *      without holding the lock of what the thread waits at is as in 3. A mobile thread's claim becomes CLAIM_WAITING when it
 *      has left its stack, and before what it waits at is unlocked.
 *   5. `current` is the thread whose stack the worker runs on; NULL: the worker's own stack.
 *   6. `ready` is the number of runnables in the worker's run queue.
 *   7. No spin lock is held across a switch, but released right after it, on the next stack.
 */
#ifndef GS_THREAD_STATE_H
#define GS_THREAD_STATE_H

#include "thread/whole.h"
#include "thread/worker.h"

#include <errno.h>
#include <stddef.h>

/* What has become of a wait: when it is over, the call's result, 0 or any -errno. */
enum claim {
    CLAIM_WOKEN = 0,
    CLAIM_WAITING = 1,
    CLAIM_NONE,    /* before the first wait */
    CLAIM_LEAVING, /* will wait, but is still on its stack */
    CLAIM_TIMED_OUT = -ETIMEDOUT,
    CLAIM_CANCELED = -ECANCELED,
};

enum token { TOKEN_NONE, TOKEN_KEPT, TOKEN_PARKED };

enum cancel_state { CANCEL_NONE, CANCEL_SENT, CANCEL_DELIVERED, CANCEL_FINISHED };

/* Where a report finds who holds what is waited for. */
enum holder { HOLDER_UNKNOWN, HOLDER_THREAD, HOLDER_MUTEX, HOLDER_RWLOCK, HOLDER_ONCE };

/* What a thread waits for. Where it waits at an object for its turn, the kind says which members of the object are the lock and
 * the queue, and who claims the wait for its deadline or for cancellation takes the thread out of the queue. */
struct wait_kind {
    const char *what;      /* for reports */
    bool is_outside;       /* it may be woken from outside of the threads */
    bool is_uninterrupted; /* by cancellation */
    bool has_queue;
    uint8_t holder; /* enum holder */
    uint16_t lock_at, queue_at;
    void *(*object)(const void *at); /* NULL: what is waited at is the object itself */
    /* Under the lock, once the thread is out of the queue; was_queued: nobody else had taken it out. May be NULL. Called by the
     * thread's worker, by the monitor where that is stuck, or by the thread itself if it cannot wait. */
    void (*given_up)(void *object, struct gs_thread *thread, bool was_queued);
};
#define WAITS_IN(type_, queue_)                                                                    \
    .has_queue = true, .lock_at = offsetof(struct type_, lock),                                    \
    .queue_at = offsetof(struct type_, queue_)

#define NAME_SIZE 24

/* On the top page of its stack, from a cache line on. The first line is for its end; waiting and switching touch the second and
 * the third. */
struct gs_thread {
    union {
        struct gs_thread *joiner;
        struct gs_thread *next_free; /* of one that has ended */
    };
    void *argument; /* and later its result */
    struct gs_cleanup *cleanups;
    void **values;
    struct runnable run; /* its first half is for policies */
    void *sp;

    struct worker *worker; /* NULL: it has not run */
    atomic_int claim;      /* enum claim */
    atomic_uint cancel;
    bool is_uncancelable, migrates, is_token_wait;
    bool is_wait_uninterrupted; /* beside what the kind says */
    bool is_outside;            /* it is one of its worker's `outside` */
    bool is_pinned; /* stays for now, though it migrates: what it waits for belongs to its worker */
    bool is_detached, is_done, is_live, has_canary;
    uint8_t stack_class;
    struct gs_spin lock; /* guards is_done, is_detached and joiner */

    const struct wait_kind *waits;
    const void *waits_at;
    uint64_t since_ns;
    uint64_t deadline_ns;    /* of the wait; GS_NEVER: none */
    uint64_t timer_ns;       /* when its timer goes off; GS_NEVER: it is not active */
    struct gs_waiter waiter; /* where it waits at one object; otherwise waiters stand on stacks */

    atomic_uint token;
    struct gs_waiter *woken_by;
    struct gs_timer timer;
    uint32_t deadline_place; /* in its worker's deadlines; 0: not there */
    gs_thread_fn *fn;
    unsigned select_start;
    struct runnable cancel_message;
    char *stack, *stack_top; /* the lowest usable byte, and the end */
    unsigned chain;          /* deadlock.c: the last in which it was found */
    struct gs_list link;     /* of those on stacks of the caller's */
    struct worker *bound;    /* stays on this one from the beginning */
    void *base;              /* the thread pointer while it runs; NULL: its worker's */
    struct fiber fiber;
    char name[NAME_SIZE];
};
_Static_assert(offsetof(struct gs_thread, run.item.next) == 64 &&
                   offsetof(struct gs_thread, waits) == 128 &&
                   offsetof(struct gs_thread, waiter.item) == 192,
               "what is touched together is a cache line");

static inline struct gs_thread *thread_current(void)
{
    return worker_current()->current;
}

static inline bool thread_is_mobile(const struct gs_thread *thread)
{
    return UNLIKELY(thread->migrates) && gs_runtime.is_multi;
}

static inline struct gs_thread *thread_of(struct gs_policy_item *item)
{
    return gs_container_of(item, struct gs_thread, run.item);
}

/* Others may ask meanwhile, to cancel it. */
static inline void thread_set_worker(struct gs_thread *thread, struct worker *worker)
{
    __atomic_store_n(&thread->worker, worker, __ATOMIC_SEQ_CST);
}

/* One that is woken soon has probably left the cache. Always inlined, here and below: a function that does nothing else would be
 * taken for one that does nothing. */
static inline __attribute__((always_inline)) void thread_prefetch(const struct gs_thread *thread)
{
    __builtin_prefetch(&thread->run.item.next, 1);
    __builtin_prefetch(&thread->waits, 1);
}

/* The same of its stack, as far as the calls go that wait, and a bit of what called them; its descriptor had better be there. */
#define STACK_LINES 6u
static inline __attribute__((always_inline)) void
thread_prefetch_stack(const struct gs_thread *thread)
{
    for (unsigned line = 0; line < STACK_LINES; line++)
        __builtin_prefetch((const char *)thread->sp + (size_t)line * 64, 1);
}

/* ---- Run queue (worker.c) ---- */

/* HIGH, NORMAL, none, LOW: on the way of every wake-up. */
static inline unsigned level_of(uint8_t priority)
{
    return priority ^ 1u;
}
_Static_assert((GS_PRIORITY_HIGH ^ 1) == 0 && (GS_PRIORITY_NORMAL ^ 1) == 1 &&
                   (GS_PRIORITY_LOW ^ 1) == 3,
               "levels");

static inline void queue_push(struct worker *worker, struct runnable *runnable)
{
    count_add(&worker->ready, 1);
    if (UNLIKELY(worker->policy_queue) && !runnable->resume) {
        gs_runtime.options.policy->push(worker->policy_queue, &runnable->item);
        return;
    }
    unsigned level = level_of(runnable->item.priority);
    struct run_queue *queue = &worker->queues[level];
    runnable->item.next = NULL;
    *queue->last = &runnable->item;
    queue->last = &runnable->item.next;
    worker->ready_mask |= 1u << level;
}

/* The first of a level that is not empty. */
static inline struct gs_policy_item *queue_take(struct worker *worker, unsigned level)
{
    struct run_queue *queue = &worker->queues[level];
    struct gs_policy_item *item = queue->first;
    count_add(&worker->ready, UINT64_MAX);
    queue->first = item->next;
    if (queue->first) {
        thread_prefetch_stack(thread_of(queue->first));
        if (queue->first->next)
            thread_prefetch(thread_of(queue->first->next));
    } else {
        queue->last = &queue->first;
        worker->ready_mask &= ~(1u << level);
    }
    return item;
}

static inline struct gs_policy_item *queue_pop(struct worker *worker)
{
    if (UNLIKELY(!worker->ready_mask)) {
        if (LIKELY(!worker->policy_queue))
            return NULL;
        struct gs_policy_item *item = gs_runtime.options.policy->pop(worker->policy_queue);
        count_add(&worker->ready, item ? UINT64_MAX : 0);
        return item;
    }
    return queue_take(worker, (unsigned)__builtin_ctz(worker->ready_mask));
}

/* Due every so many switches. True: the loop is to be stepped. */
bool gs_worker_tick(struct worker *worker);
/* The next to run, also from the worker's own shared queue. NULL: none. */
struct gs_policy_item *gs_worker_next(struct worker *worker);
/* Leave it for the worker; any kernel thread. */
void gs_worker_send(struct worker *worker, struct runnable *runnable);
/* For any worker to take. worker: the caller; NULL: the caller is none. */
void gs_worker_share(struct worker *worker, struct gs_thread *thread);
/* On the worker's own stack, until the thread leaves its stack for this one. */
void gs_worker_run_thread(struct worker *worker, struct gs_thread *thread);
/* Whether it may take from others. */
bool gs_worker_may_steal(const struct worker *worker);
/* The kernel thread of a worker that is in the table. Returns 0 or -EAGAIN. */
int gs_worker_start(struct worker *worker);
void *gs_worker_main(void *argument);
int gs_worker_new(unsigned index, struct worker **ret_worker);
void gs_worker_free(struct worker *worker);
/* Where the loop keeps its cached time (current.c). */
const uint64_t *gs_worker_clock(const struct gs_loop *loop);
/* Of a loop that is new. */
void gs_worker_bound_loop(struct gs_loop *loop);
/* steal.c: take some from another worker's shared queue. */
struct gs_policy_item *gs_worker_steal(struct worker *worker);
struct gs_policy_item *gs_worker_take_shared(struct worker *worker, struct worker *from);

/* base.c: resumes a thread that has a thread pointer of its own. */
void gs_thread_resume_based(struct worker *worker, struct runnable *runnable);

/* What is ready is a message to the worker rather than a thread. */
static inline bool runnable_is_message(const struct runnable *runnable)
{
    return runnable->resume && runnable->resume != gs_thread_resume_based;
}

/* ---- Waiting (wait.c) ---- */

struct wait {
    const struct wait_kind *kind;
    const void *at;
    uint64_t deadline_ns;
    bool is_uninterrupted; /* by cancellation */
    const void *site;      /* the call in the program; NULL: the kind says it all */
};

/* Wait until somebody claims the calling thread, which is queued where they find it, under the lock, which the caller holds and
 * which is released. NULL: no lock. Returns 0, -ETIMEDOUT, -ECANCELED or -ENOMEM: then the caller takes the thread off the queue,
 * if it still is there. */
int gs_thread_wait(struct gs_thread *self, struct gs_spin *lock, const struct wait *wait);
/* The same, with then(argument) to release what guards the queues; it is called in any case. */
int gs_thread_wait_then(struct gs_thread *self, void (*then)(void *), void *argument,
                        const struct wait *wait);

/* Whether it is among those that wait for what may come from outside. It is left there when it goes on, until it waits for something
 * else or ends: only when nothing is ready does that count matter. */
static inline void thread_count_outside(struct worker *worker, struct gs_thread *thread,
                                        bool is_outside)
{
    if (LIKELY(thread->is_outside == is_outside))
        return;
    thread->is_outside = is_outside;
    count_add(&worker->outside, is_outside ? 1 : UINT64_MAX);
}

/* The thread goes on as `claim` says, unless somebody else has claimed it. The caller holds the lock of what the thread waits
 * at, or is its worker; and then makes it ready. */
static inline bool thread_claim(struct gs_thread *thread, int claim)
{
    int waiting = CLAIM_WAITING;
    if (gs_runtime.is_multi)
        return atomic_compare_exchange_strong_explicit(&thread->claim, &waiting, claim,
                                                       memory_order_acq_rel, memory_order_relaxed);
    if (atomic_load_explicit(&thread->claim, memory_order_relaxed) != CLAIM_WAITING)
        return false;
    atomic_store_explicit(&thread->claim, claim, memory_order_relaxed);
    return true;
}

/* By a worker; any kernel thread. */
void gs_thread_ready_elsewhere(struct gs_thread *thread);

static inline void thread_ready(struct worker *worker, struct gs_thread *thread)
{
    if (LIKELY(thread->worker == worker && !thread->migrates))
        queue_push(worker, &thread->run);
    else
        gs_thread_ready_elsewhere(thread);
}

/* The same; worker: the caller; NULL: it is none. */
static inline void thread_ready_by(struct worker *worker, struct gs_thread *thread)
{
    if (LIKELY(worker))
        thread_ready(worker, thread);
    else
        gs_thread_ready_elsewhere(thread);
}

/* Its worker takes in a thread that was sent to it, or that it has woken itself. */
void gs_thread_arrive(struct worker *worker, struct gs_thread *thread);
/* Cancel what the thread waits for, if it may be. By its worker. */
void gs_thread_cancel_wait(struct worker *worker, struct gs_thread *thread);

/* Take a thread that was claimed out of what it waits at, before it is made ready. No lock is held. */
void gs_thread_give_up(struct gs_thread *thread);

/* Whether it waits, and for what: thread->waits. */
static inline bool thread_waits(const struct gs_thread *thread)
{
    return atomic_load_explicit(&thread->claim, memory_order_relaxed) == CLAIM_WAITING;
}

/* Whether a cancellation may end its wait, if it waits. */
static inline bool thread_is_interruptible(const struct gs_thread *thread)
{
    return !thread->is_uncancelable && !thread->is_wait_uninterrupted &&
           !thread->waits->is_uninterrupted;
}

/* ---- Mobile threads that wait (deadline.c) ---- */

void gs_deadlines_init(struct worker *worker);
void gs_deadlines_done(struct worker *worker);
/* Time the calling thread out at deadline_ns. Returns 0 or -ENOMEM. */
int gs_deadline_start(struct gs_thread *thread, uint64_t deadline_ns);
/* The thread has been claimed: let it go on. worker: the caller; NULL: the caller is none. */
void gs_thread_move_on(struct worker *worker, struct gs_thread *thread);
/* As gs_thread_cancel_wait, on any worker; worker: the thread's. True: the thread has been claimed, and is to move on. */
bool gs_deadline_cancel_wait(struct worker *worker, struct gs_thread *thread);
/* Time out the threads whose deadline has come. worker may be another one, which is stuck. Returns how many there were. */
unsigned gs_deadlines_expire(struct worker *worker, uint64_t now_ns);

/* ---- Threads (thread.c, cancel.c) ---- */

/* base.c: of a new thread. NULL: none of its own. */
void gs_thread_set_base(struct gs_thread *thread, void *base);
bool gs_bases_are_supported(const struct gs_thread_attributes *attributes);
void gs_thread_complete(struct worker *worker, struct gs_thread *thread);
static inline bool thread_is_canceled(const struct gs_thread *thread)
{
    unsigned state = atomic_load_explicit(&thread->cancel, memory_order_relaxed);
    return UNLIKELY(state != CANCEL_NONE) && !thread->is_uncancelable;
}
/* The monitor delivers a message of the worker's, which is stuck. False: it is none that could be, and the worker's still. */
bool gs_cancel_deliver_for(struct worker *owner, struct runnable *runnable);
void gs_thread_init_cancel(struct gs_thread *thread);
/* It has become live: if all threads are being cancelled, so is this. */
void gs_thread_canceled_with_all(struct gs_thread *thread);
void gs_thread_run_cleanups(struct gs_thread *thread);
void gs_thread_destroy_values(struct gs_thread *thread);

#endif
