/* Threads, workers and the runtime, and what their files ask of each other.
 *
 * A worker is a kernel thread with an event loop and a run queue, which are used by nobody else. What other workers and kernel
 * threads have for it, they leave in its inbox. A thread goes through these states, which are told apart by where it stands:
 *
 *     spawned ---> shared queue ---> run queue ---> running ---> waiting ---> run queue (its worker's)
 *                  (several workers)    ^  (dispatch)  |  (thread_wait)   |
 *                                       +---- yield ---+                  +--> shared queue, if it migrates
 *                                                      |
 *                                                      +--> done (gs_thread_exit) --> joined, its stack kept for reuse
 *
 * Invariants:
 *   1. A thread in a run queue has left its stack, and its `worker` is that queue's.
 *   2. A thread in a shared queue has left its stack, and its timer is inactive.
 *   3. Only its worker starts or stops a thread's timer, times it out, cancels its wait, or runs it.
 *   4. A thread whose claim is CLAIM_WAITING is made ready by whoever changes the claim, and by nobody else; who changes it
 *      without holding the lock of what the thread waits at is its worker.
 *   5. `current` is the thread whose stack the worker runs on; NULL: the worker's own stack.
 *   6. `ready` is the number of runnables in the worker's run queue.
 *   7. No spin lock is held across a switch, but released right after it, on the next stack.
 */
#ifndef GS_THREAD_STATE_H
#define GS_THREAD_STATE_H

#include "thread/context.h"
#include "thread/sanitizer.h"

#include <gossamer/list.h>
#include <gossamer/loop.h>
#include <gossamer/sync.h>
#include <gossamer/thread.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define LIKELY(condition_) __builtin_expect(!!(condition_), 1)
#define UNLIKELY(condition_) __builtin_expect(!!(condition_), 0)

struct worker;

/* What can be resumed: a thread with a stack (resume is NULL), or anything else, whose function is called on the worker's own
 * stack. `item.next` links it in a run queue, shared queue or inbox. */
struct runnable {
    struct gs_policy_item item;
    void (*resume)(struct worker *worker, struct runnable *runnable);
};

enum claim {
    CLAIM_NONE,
    CLAIM_WAITING,
    CLAIM_WOKEN,
    CLAIM_TIMED_OUT,
    CLAIM_CANCELED,
};

enum token { TOKEN_NONE, TOKEN_KEPT, TOKEN_PARKED };

enum cancel_state { CANCEL_NONE, CANCEL_SENT, CANCEL_DELIVERED, CANCEL_FINISHED };

/* What a thread waits for: for reports. is_outside: it may be woken from outside of the threads. */
struct wait_kind {
    const char *what;
    bool is_outside;
};

#define NAME_SIZE 24

/* On the top page of its stack. What switching touches comes first. */
struct gs_thread {
    struct runnable run;
    void *sp;
    struct worker *worker; /* NULL: it has not run */

    atomic_uint claim;
    atomic_uint token;
    atomic_uint cancel;
    bool is_uncancelable, migrates, is_detached, is_done, is_live;
    uint8_t stack_class;
    bool is_token_wait, is_wait_uninterrupted, has_canary;
    struct gs_spin lock; /* guards is_done, is_detached and joiner */
    uint64_t deadline_ns;
    struct gs_waiter *woken_by;
    const struct wait_kind *waits; /* NULL: for nothing */
    const void *waits_at;          /* the object */
    uint64_t since_ns;
    struct gs_timer timer;
    struct gs_thread *joiner, *next_free;
    gs_thread_fn *fn;
    void *argument; /* and later its result */
    struct gs_cleanup *cleanups;
    void **values;
    unsigned select_start;
    struct runnable cancel_message;
    char *stack, *stack_top; /* the lowest usable byte, and the end */
    struct gs_list link;     /* of those on stacks of the caller's */
    struct worker *bound;    /* stays on this one from the beginning */
    struct fiber fiber;
    char name[NAME_SIZE];
};

struct run_queue {
    struct gs_policy_item *first, **last;
};

enum { LEVELS = 4, STACK_CLASSES = 4, CLASS_CALLER = STACK_CLASSES };

/* Threads that any worker may take: not started yet, or migrating. */
struct shared_queue {
    struct gs_spin lock;
    atomic_uint count;
    struct gs_policy_item *first, *last;
};

struct worker {
    struct worker *self; /* at gs:0 */
    struct gs_thread *current;
    int countdown; /* switches until the next tick */
    bool is_poll_due;
    unsigned ready_mask;
    struct run_queue queues[LEVELS];
    _Atomic(uint64_t) ready;
    struct runnable *deferred; /* taken from the run queue by a thread, for the worker to resume */
    void *policy_queue;
    void *sp; /* of the worker's own stack, while a thread runs */
    const uint64_t *now_ns;
    _Atomic(uint64_t)
        outside; /* threads that wait for what may come from outside; the sum over workers counts */

    struct gs_loop *loop;
    uint64_t polled_ns;
    struct gs_thread *free_stacks[STACK_CLASSES];
    unsigned free_count[STACK_CLASSES];
    _Atomic(uint64_t) spawned, ended, switches, steals, polls;
    struct fiber fiber;
    void *own_thread; /* what the processor's thread pointer is in this kernel thread */
    void *gs_before;
    unsigned index;
    pthread_t kernel_thread;
    int kernel_id;
    int result;
    struct gs_signal dump; /* the first worker's */
    void *signal_stack;
    stack_t signal_stack_before;

    _Alignas(64) _Atomic(struct gs_policy_item *) inbox; /* last first */
    atomic_bool is_idle;
    struct shared_queue shared;
};

struct runtime {
    bool uses_gs;
    bool is_multi; /* several workers: locks are locks */
    bool is_deadlocked;
    unsigned worker_count;
    struct worker **workers;
    struct gs_threads_options options;
    atomic_bool is_running, is_stopping;
    atomic_uint idle;          /* workers with nothing to do */
    atomic_uint idle_epoch;    /* how often one had something to do again */
    _Atomic(uint64_t) foreign; /* threads spawned by kernel threads of the program's own */
    atomic_uint arriving;      /* such spawns under way */
    struct gs_spin caller_lock;
    struct gs_list caller_threads; /* on stacks of the caller's */
};
extern struct runtime gs_runtime;

/* ---- Numbers that one worker writes and others read ---- */

static inline void count_add(_Atomic(uint64_t) *count, uint64_t n)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline uint64_t count_read(_Atomic(uint64_t) *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

/* ---- The worker that runs ---- */

struct worker *gs_worker_from_tls(void);
void gs_worker_set_current(struct worker *worker);
/* For kernel threads of any kind: NULL in those that are no workers. */
struct worker *gs_worker_or_null(void);

static inline struct worker *worker_current(void)
{
#ifdef __x86_64__
    if (LIKELY(gs_runtime.uses_gs)) {
        struct worker *worker;
        __asm__ volatile("movq %%gs:0, %0" : "=r"(worker) : : "memory");
        return worker;
    }
#endif
    return gs_worker_from_tls();
}

static inline struct gs_thread *thread_current(void)
{
    return worker_current()->current;
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

/* ---- Spin locks: held for a few instructions; with one worker there is nobody to keep out ---- */

static inline void processor_pause(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

void gs_spin_wait(struct gs_spin *lock);

static inline void spin_lock_always(struct gs_spin *lock)
{
    if (UNLIKELY(atomic_exchange_explicit(&lock->held, true, memory_order_acquire)))
        gs_spin_wait(lock);
}

static inline void spin_unlock_always(struct gs_spin *lock)
{
    atomic_store_explicit(&lock->held, false, memory_order_release);
}

static inline void spin_lock(struct gs_spin *lock)
{
    if (gs_runtime.is_multi)
        spin_lock_always(lock);
}

static inline void spin_unlock(struct gs_spin *lock)
{
    if (gs_runtime.is_multi)
        spin_unlock_always(lock);
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

static inline struct gs_policy_item *queue_pop(struct worker *worker)
{
    if (UNLIKELY(!worker->ready_mask)) {
        if (LIKELY(!worker->policy_queue))
            return NULL;
        struct gs_policy_item *item = gs_runtime.options.policy->pop(worker->policy_queue);
        count_add(&worker->ready, item ? UINT64_MAX : 0);
        return item;
    }
    unsigned level = (unsigned)__builtin_ctz(worker->ready_mask);
    struct run_queue *queue = &worker->queues[level];
    struct gs_policy_item *item = queue->first;
    count_add(&worker->ready, UINT64_MAX);
    queue->first = item->next;
    if (!queue->first) {
        queue->last = &queue->first;
        worker->ready_mask &= ~(1u << level);
    }
    return item;
}

/* Due every so many switches. True: the loop is to be stepped. */
bool gs_worker_tick(struct worker *worker);
/* The next to run, also from the worker's own shared queue. NULL: none. */
struct gs_policy_item *gs_worker_next(struct worker *worker);
/* Leave it for the worker; any kernel thread. */
void gs_worker_send(struct worker *worker, struct runnable *runnable);
/* For any worker to take; any kernel thread that is a worker. */
void gs_worker_share(struct worker *worker, struct gs_thread *thread);
void *gs_worker_main(void *argument);
int gs_worker_new(unsigned index, struct worker **ret_worker);
void gs_worker_free(struct worker *worker);
/* Where the loop keeps its cached time (current.c). */
const uint64_t *gs_worker_clock(const struct gs_loop *loop);
/* steal.c: take some from another worker's shared queue. */
struct gs_policy_item *gs_worker_steal(struct worker *worker);
struct gs_policy_item *gs_worker_take_shared(struct worker *worker, struct worker *from);

/* ---- Waiting (wait.c) ---- */

struct wait {
    const struct wait_kind *kind;
    const void *at;
    uint64_t deadline_ns;
    bool is_uninterrupted; /* by cancellation */
};

/* Wait until somebody claims the calling thread, which is queued where they find it, under the lock, which the caller holds and
 * which is released. NULL: no lock. Returns 0, -ETIMEDOUT, -ECANCELED or -ENOMEM: then the caller takes the thread off the queue,
 * if it still is there. */
int gs_thread_wait(struct gs_thread *self, struct gs_spin *lock, const struct wait *wait);
/* The same, with then(argument) to release what guards the queues; it is called in any case. */
int gs_thread_wait_then(struct gs_thread *self, void (*then)(void *), void *argument,
                        const struct wait *wait);

/* The thread goes on as `claim` says, unless somebody else has claimed it. The caller holds the lock of what the thread waits
 * at, or is its worker; and then makes it ready. */
static inline bool thread_claim(struct gs_thread *thread, enum claim claim)
{
    unsigned waiting = CLAIM_WAITING;
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

/* Its worker takes in a thread that was sent to it, or that it has woken itself. */
void gs_thread_arrive(struct worker *worker, struct gs_thread *thread);
/* Cancel what the thread waits for, if it may be. By its worker. */
void gs_thread_cancel_wait(struct worker *worker, struct gs_thread *thread);

/* ---- Threads (thread.c, cancel.c) ---- */

void gs_thread_complete(struct worker *worker, struct gs_thread *thread);
static inline bool thread_is_canceled(const struct gs_thread *thread)
{
    unsigned state = atomic_load_explicit(&thread->cancel, memory_order_relaxed);
    return UNLIKELY(state != CANCEL_NONE) && !thread->is_uncancelable;
}
void gs_thread_init_cancel(struct gs_thread *thread);
void gs_thread_run_cleanups(struct gs_thread *thread);
void gs_thread_destroy_values(struct gs_thread *thread);

/* ---- Reports (report.c) ---- */

int gs_reports_start(void);
void gs_reports_stop(void);
int gs_reports_start_worker(struct worker *worker);
void gs_reports_stop_worker(struct worker *worker);
void gs_report_deadlock(void);
/* context: of the signal; NULL: it was found later. */
void gs_report_overflow(const struct gs_thread *thread, const void *context);
/* Where reports go; -1: nowhere. */
int gs_report_fd(void);

/* ---- Descriptors and pool (descriptors.c, pool.c): the runtime ends ---- */

void gs_descriptors_done(void);
void gs_pool_done(void);

#endif
