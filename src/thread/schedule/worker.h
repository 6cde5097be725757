/* The runtime and its workers: their data, how the current worker is found, spin locks, and the
 * functions of the runtime grouped by the file that defines them. Threads and waits are in
 * thread.h.
 *
 * A worker is a kernel thread with an event loop and a run queue, which no other kernel thread
 * uses. Other workers and kernel threads send to it through its inbox. */
#ifndef GS_THREAD_WORKER_H
#define GS_THREAD_WORKER_H

#include "base/chaos.h"
#include "base/hidden.h"
#include "base/timer_queue.h"
#include "thread/context/context.h"
#include "thread/context/sanitizer.h"
#include "thread/report/checked.h"

#include <gossamer/list.h>
#include <gossamer/loop.h>
#include <gossamer/page_cache.h>
#include <gossamer/sync.h>
#include <gossamer/thread.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#define LIKELY(condition_) __builtin_expect(!!(condition_), 1)
#define UNLIKELY(condition_) __builtin_expect(!!(condition_), 0)

struct gs_dns;
struct shared_stacks;
struct watch;
struct worker;

/* An item that a worker resumes: a thread with a stack (resume is NULL), or anything else, whose
 * function is called on the worker's own stack. `next` links it in a run queue, a shared queue or
 * an inbox. */
struct runnable {
    struct runnable *next;
    void (*resume)(struct worker *worker, struct runnable *runnable);
    uint8_t priority; /* enum gs_priority */
};

struct run_queue {
    struct runnable *first, **last;
};

/* LEVELS: one for each priority, and one that is not used (level_of). */
enum { LEVELS = 4 };

/* The classes of stacks (stacks.h). Before CLASS_LARGE, their addresses are reserved. CLASS_SHARED:
 * control blocks alone, of threads that share stacks. CLASS_USER_STACK: the class of threads on
 * stacks of the program's own. */
enum {
    PLAIN_CLASSES = 5,
    CLASS_SHARED = PLAIN_CLASSES,
    RESERVED_CLASSES,
    CLASS_LARGE = RESERVED_CLASSES,
    STACK_CLASSES = 8,
    CLASS_USER_STACK = STACK_CLASSES
};

/* Workers that the monitor may add to those that the program asked for, while these are stuck. */
#define EXTRA_WORKERS_MAX ((unsigned)GS_EXTRA_WORKERS)

/* Their numbers, from 1, have 16 bits (descriptors.h). */
#define WORKERS_MAX (UINT16_MAX - EXTRA_WORKERS_MAX)

/* Threads that any worker may take: those that have not started yet, and migrating ones. */
struct shared_queue {
    struct gs_spin lock;
    atomic_uint count;
    struct runnable *first, *last;
};

/* Deadlines of threads (deadlines.c). */
struct deadlines {
    struct gs_spin lock;
    struct gs_timer_queue queue;
    struct gs_timer timer; /* the worker's: expires at the first deadline, or before */
};

/* Free stacks of a class (stacks.c). Those that were not needed for a period are given back. */
struct free_list {
    struct gs_thread *first;
    unsigned count;
    unsigned low;    /* the least count in this period */
    unsigned excess; /* to be given back */
};

/* State of a worker as the monitor last saw it (monitor.c). */
struct snapshot {
    uint64_t switches, polls;
    const struct gs_thread *current;
    int countdown;
};
struct observation {
    struct snapshot snapshot;
    uint64_t since_ns; /* when this snapshot was seen first */
    uint64_t cpu_ns;   /* CPU time of the kernel thread at that moment */
    bool is_reported;
};

/* Events of descriptors that an iteration of the loop has collected; they are delivered to threads
 * when the iteration is over (descriptors.c). */
#define PENDING_EVENTS_MAX 64u
struct pending_events {
    unsigned count;
    struct {
        struct watch *watch;
        unsigned events;
    } each[PENDING_EVENTS_MAX];
};

#define SIGNAL_STACK_SIZE ((size_t)64 << 10)

/* How much the running thread may still do before others have their turn (turn.h). */
struct turn {
    ssize_t budget;
    unsigned accepts;  /* since others had their turn */
    uint64_t switches; /* of the worker, when its turn was noticed */
    uint64_t since_ns; /* when that was */
};

struct worker {
    struct worker *self; /* at gs:0 */
    struct gs_thread *current;
    int countdown; /* switches until the next tick */
    int yields;    /* of threads that any worker may take, since the last tick */
    bool is_poll_due;
    bool was_idle;        /* and has run no thread since */
    bool holds_wakeups;   /* gs_threads_hold_wakeups */
    bool is_stack_in_use; /* by the running thread (gs_thread_call_on_worker_stack) */
    unsigned ready_mask;  /* one bit for each level that is not empty */
    struct run_queue queues[LEVELS];
    _Atomic(uint64_t) ready;
    struct runnable *deferred; /* popped by a thread, for the worker's own stack to resume */
    void *sp;                  /* of the worker's own stack, while a thread runs */
    const uint64_t *now_ns;
    /* Threads whose wait may be ended from outside the threads, or has a deadline. Only the sum
     * over all workers is meaningful. */
    _Atomic(uint64_t) external;

    struct gs_loop *loop;
    uint64_t polled_ns;
    struct free_list free[STACK_CLASSES];
    unsigned free_max; /* free stacks of a class beyond which something is to be done */
    _Atomic(uint64_t) spawned, ended, switches, steals, polls;
    struct fiber fiber;
    void *abi_thread_pointer; /* what __builtin_thread_pointer returns in this kernel thread */
    void *worker_tls_base;    /* the TLS base unless a thread with its own TLS runs */
    void (*on_end)(
        void *result); /* of a thread that has ended: called with the worker's TLS base */
    void *end_result;
    bool has_thread_tls_base; /* such a thread runs: it may only switch to the worker's own stack */
    void *stack;              /* the worker's own */
    size_t stack_size;
    char *receive_buffer; /* of gs_recv_with; NULL: not used yet, or in use */
    struct gs_dns *dns;   /* of its loop (net/resolve.c); NULL: not used yet */
    void *saved_gs_base;
    unsigned unused_mode; /* for gs_context_call, with several workers */
    unsigned index;
    bool exits_process;         /* in a forked child: nothing waits for the end of this worker */
    struct forking *forking;    /* the call that forks just now, with all locks held (fork.c) */
    struct worker *next_leaked; /* list of workers whose kernel threads exist in the parent only */
    struct worker *next_unused; /* list of workers whose memory may be reused */
    pthread_t kernel_thread;
    bool is_started; /* it has a kernel thread, other than the program's first */
    atomic_int tid;
    int result;
    struct gs_page_cache page_cache;
    struct gs_signal dump; /* used by the first worker only */
    void *signal_stack;    /* of SIGNAL_STACK_SIZE bytes, for the handler of SIGSEGV */
    stack_t signal_stack_before;
    struct pending_events pending_events;
    struct turn turn;
    struct gs_timer trim_timer;          /* active while there are many free stacks */
    uint64_t trim_period_ns;             /* when the period of `free` began */
    struct shared_stacks *shared_stacks; /* NULL: no thread shares a stack */
    struct runnable cancel_message;      /* to itself: deliver cancellations (cancel.c) */
    bool is_cancel_message_queued;
    struct deadlines own_deadlines; /* of threads that stay on this worker */
#ifdef GS_CHECKED
    struct gs_call call; /* the last call of a thread that may wait */
    bool runs_protected; /* protected_stack.c */
#endif

    _Alignas(64) _Atomic(struct runnable *) inbox; /* newest first */
    struct gs_thread *_Atomic canceled;            /* threads whose cancellation it is to deliver */
    atomic_bool is_idle;  /* idle, and not woken yet: the kernel thread that wakes it clears this */
    atomic_bool is_stuck; /* set by the monitor */
    /* Watches that other workers have detached from their descriptors: only this worker can stop
     * them. */
    struct watch *_Atomic detached_watches, *_Atomic closed_watches;
    struct shared_queue shared;
    struct deadlines deadlines; /* of mobile threads that wait on this worker, see mobile_wait.c */
    uint64_t ended_at_resume;   /* `ended` when the running thread was resumed (asan_program.c) */
    struct observation observation; /* the monitor's */
    _Atomic(uint64_t) stuck_count;  /* how often it was stuck; written by the monitor */
};

struct runtime {
    bool uses_gsbase;           /* the GS base of x86-64 points to the worker (FSGSBASE) */
    bool is_worker_in_register; /* the same, during a run; outside there is no worker */
    bool is_multi;              /* there are several workers, so locks are needed */
    atomic_bool is_deadlocked;
    atomic_uint worker_count;          /* including extra workers */
    atomic_uint enabled_extra_workers; /* those that may take threads from others now */
    struct worker **workers;           /* with room for the extra workers */
    struct gs_threads_options options;
    atomic_bool is_running, is_stopping;
    atomic_uint idle;                   /* idle workers */
    atomic_uint idle_epoch;             /* how often a worker has left the idle state */
    _Atomic(uint64_t) nonworker_spawns; /* threads spawned by kernel threads that are no workers */
    atomic_uint entering;               /* spawns and wake-ups in progress by such kernel threads */
    atomic_uint canceling_all;          /* calls of gs_threads_cancel_all in progress */
    struct gs_spin user_stack_lock;
    struct gs_list user_stack_threads; /* guarded by user_stack_lock; linked by their `link` */
    sigset_t signals;                  /* signal mask of the caller of gs_threads_run */
    bool tells_asan; /* the program has the address sanitizer, the library not (asan_program.c) */
    atomic_bool shares_stacks;     /* a thread that shares its stack was spawned */
    atomic_bool has_tls_bases;     /* a thread with a thread pointer of its own was spawned */
    atomic_bool is_monitor_asleep; /* a worker that leaves the idle state wakes it */
    atomic_bool is_any_stuck;      /* the monitor found a worker stuck in its last round */
};
extern GS_HIDDEN struct runtime gs_runtime;
_Static_assert(offsetof(struct worker, current) == 8, "gs_mutex_self reads it");

/* A kernel thread that is no worker calls these around a spawn or a wake-up, so that the run does
 * not end in between. Leaving advances the epoch before it decrements `entering`: check_end notices
 * one or the other. */
static inline void gs_runtime_enter(void)
{
    atomic_fetch_add(&gs_runtime.entering, 1);
}

static inline void gs_runtime_leave(void)
{
    atomic_fetch_add(&gs_runtime.idle_epoch, 1);
    atomic_fetch_sub(&gs_runtime.entering, 1);
}

/* ---- Counters that one worker writes and others read ---- */

static inline void count_add(_Atomic(uint64_t) *count, uint64_t n)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline uint64_t count_read(_Atomic(uint64_t) *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

/* ---- The current worker (current_worker.c) ---- */

struct worker *gs_worker_from_tls(void);

/* The same, but the process is aborted, with a line on standard error, if there is none. */
struct worker *gs_worker_or_stop(void);

/* Finds the worker by the stack pointer, where the thread-local storage may belong to a thread.
 * NULL: use the kernel thread's thread-local storage. */
struct worker *gs_worker_from_stack(const void *sp);
void gs_worker_set_current(struct worker *worker);

/* May be called by any kernel thread. Returns NULL in those that are no workers. */
struct worker *gs_worker_or_null(void);

/* Whether worker_from_register may be called. If so, and if a lock is free (spin_try_lock), a
 * blocking call need not call anything before the switch, which is a tail call: so it saves no
 * registers. All else is in a function of its own, which it ends in. */
static inline bool worker_is_in_register(void)
{
#ifdef __x86_64__
    return LIKELY(gs_runtime.is_worker_in_register);
#else
    return false;
#endif
}

static inline struct worker *worker_from_register(void)
{
#ifdef __x86_64__
    struct worker *worker;
    __asm__ volatile("movq %%gs:0, %0" : "=r"(worker) : : "memory");
    return worker;
#else
    return gs_worker_from_tls();
#endif
}

static inline struct worker *worker_current(void)
{
    return worker_is_in_register() ? worker_from_register() : gs_worker_or_stop();
}

/* ---- Spin locks (worker.c): held for a few instructions; no-ops with one worker ---- */

static inline void cpu_relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

void gs_spin_wait(struct gs_spin *lock);

/* Yield while waiting for another kernel thread, which may have been preempted. The caller holds no
 * lock. */
void gs_spin_pause(void);

static inline void spin_lock_always(struct gs_spin *lock)
{
    gs_chaos(CHAOS_LOCK);
    if (UNLIKELY(atomic_exchange_explicit(&lock->held, true, memory_order_acquire)))
        gs_spin_wait(lock);
}

static inline void spin_unlock_always(struct gs_spin *lock)
{
    gs_chaos(CHAOS_UNLOCK);
    atomic_store_explicit(&lock->held, false, memory_order_release);
    gs_chaos(CHAOS_UNLOCK);
}

static inline void spin_lock(struct gs_spin *lock)
{
    if (gs_runtime.is_multi)
        spin_lock_always(lock);
}

/* Returns false if it is held. */
static inline bool spin_try_lock(struct gs_spin *lock)
{
    if (!gs_runtime.is_multi)
        return true;
    gs_chaos(CHAOS_LOCK);
    return LIKELY(!atomic_exchange_explicit(&lock->held, true, memory_order_acquire));
}

static inline void spin_unlock(struct gs_spin *lock)
{
    if (gs_runtime.is_multi)
        spin_unlock_always(lock);
}

/* ---- The runtime (runtime.c) ---- */

void gs_runtime_set_multi(bool is_multi);

/* Start the kernel thread of a worker that is in the table. Returns 0 or -EAGAIN. */
int gs_worker_start(struct worker *worker);

/* ---- The TLS base of a worker's kernel thread (tls_base.c) ---- */

/* Called by the worker's kernel thread before it runs any thread. */
void gs_worker_save_tls_base(struct worker *worker);

/* ---- A worker (worker.c) ---- */

/* The address where the loop keeps its cached time. */
const uint64_t *gs_worker_loop_time(const struct gs_loop *loop);

/* Limit how many events an iteration of the loop collects. */
void gs_worker_limit_loop_batch(struct gs_loop *loop);

int gs_worker_new(unsigned index, struct worker **ret_worker);
void gs_worker_free(struct worker *worker);
void *gs_worker_main(void *argument);

/* Put the item into the worker's inbox. May be called by any kernel thread. */
void gs_worker_send(struct worker *worker, struct runnable *runnable);
void gs_worker_send_to_self(struct worker *worker, struct runnable *runnable);

/* Periodic duties, due every so many switches. Returns true if the caller must switch to the
 * worker's own stack: because the loop must be polled, or because the running thread has a TLS base
 * of its own. */
bool gs_worker_tick(struct worker *worker);

/* The next item to run, also from the worker's own shared queue. NULL: none. */
struct runnable *gs_worker_next(struct worker *worker);

/* Switch from the worker's own stack to the thread's. Returns when a thread switches back. */
void gs_worker_run_thread(struct worker *worker, struct gs_thread *thread);

/* ---- The address sanitizer in the program alone (asan_program.c) ---- */

bool gs_asan_is_in_program(void);

/* Called for a new thread: the sanitizer is told when it runs. */
void gs_asan_init_thread(struct gs_thread *thread);

/* Bytes above the stack of such a thread. */
#define ASAN_RESERVE 16

/* ---- Threads that any worker may take (steal.c) ---- */

/* Whether the worker may take threads from others. */
bool gs_worker_may_steal(const struct worker *worker);

/* Wake one idle worker other than `except`, if there is one, to look at the shared queues. */
void gs_worker_wake_idle(const struct worker *except);

/* Put the thread into the shared queue of the worker; NULL: the caller is no worker. */
void gs_worker_share(struct worker *worker, struct gs_thread *thread);

/* Take half of another worker's shared threads. Returns the first of them; NULL: none. */
struct runnable *gs_worker_steal(struct worker *worker);

/* Pop the first thread of the worker's own shared queue. NULL: none. */
struct runnable *gs_worker_take_shared(struct worker *worker);

/* ---- Stuck workers (monitor.c) ---- */

/* Returns 0; with several workers also -EAGAIN. */
int gs_monitor_start(void);
void gs_monitor_stop(void);
void gs_monitor_wake(void);
void gs_monitor_after_fork(void);

/* ---- Fork (fork.c) ---- */

/* The thread is never resumed: in a child it does not exist, or its run has given it up. */
void gs_thread_forget(struct gs_thread *thread);
/* Ends the process when the worker's threads have ended, see exits_process. */
_Noreturn void gs_fork_exit(void);

/* ---- Blocking calls (blocking.c) ---- */

/* Returns 0 or -ENOMEM. */
int gs_blocking_start(void);
/* Wait until the calls have returned. */
void gs_blocking_end(void);

#endif
