/* Workers and the runtime: what they are made of, and how one is found and kept out. Part of thread/state.h. */
#ifndef GS_THREAD_WORKER_H
#define GS_THREAD_WORKER_H

#include "base/heap.h"
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

struct file_ring;
struct watch;
struct worker;

/* What can be resumed: a thread with a stack (resume is NULL), or anything else, whose function is called on the worker's own
 * stack. `item.next` links it in a run queue, shared queue or inbox. */
struct runnable {
    struct gs_policy_item item;
    void (*resume)(struct worker *worker, struct runnable *runnable);
};

struct run_queue {
    struct gs_policy_item *first, **last;
};

enum { LEVELS = 4, STACK_CLASSES = 4, CLASS_CALLER = STACK_CLASSES };

/* Workers that may be added to those that the program asked for, while these are stuck. */
#define SPARES_MOST 4u

/* Threads that any worker may take: not started yet, or migrating. */
struct shared_queue {
    struct gs_spin lock;
    atomic_uint count;
    struct gs_policy_item *first, *last;
};

/* The deadlines of the worker's mobile threads, which others may wake and take away (deadline.c). Whoever makes such a thread
 * ready takes it out under the lock. */
struct deadlines {
    struct gs_spin lock;
    struct gs_heap heap;
    struct gs_timer timer; /* the worker's: goes off at the first deadline, or before */
};

/* What the monitor saw of a worker when it looked last (monitor.c). */
struct sight {
    uint64_t switches, polls;
    const struct gs_thread *current;
    int countdown;
};
struct watched {
    struct sight sight;
    uint64_t since_ns,
        processor_ns; /* when that was seen first, and the processor time used till then */
    bool is_reported;
};

/* Of a file: found in memory, and trusted to be there for a while (cached.c). */
struct cached {
    int fd;
    off_t from, to;
    uint64_t until_ns;
};
enum { CACHED_KNOWN = 16 };

/* What a step of the loop has found of descriptors, to be told to threads when it is over (descriptors.c). */
#define REPORTS_MOST 64u
struct reports {
    unsigned count;
    struct {
        struct watch *watch;
        unsigned events;
    } each[REPORTS_MOST];
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
    void *own_thread; /* what the compiler's thread pointer is in this kernel thread now */
    void *own_base;   /* the processor's, when no thread with one of its own runs */
    bool is_based;    /* one does: it is left for the worker's own stack only */
    void *stack;      /* the worker's own */
    size_t stack_size;
    void *gs_before;
    unsigned index;
    bool is_orphan; /* the only one of a forked process, in which nobody waits for its end */
    struct worker *next_forgotten; /* of those that a forked process has no kernel threads for */
    pthread_t kernel_thread;
    bool is_started; /* there is one, other than the program's first */
    atomic_int kernel_id;
    int result;
    struct file_ring *file_ring; /* NULL: it has none yet, or can have none */
    bool has_no_file_ring;
    struct cached cached[CACHED_KNOWN];
    struct gs_signal dump; /* the first worker's */
    bool is_mute;          /* it does not answer to the signal of a dump */
    void *signal_stack;
    stack_t signal_stack_before;
    struct reports reports;

    _Alignas(64) _Atomic(struct gs_policy_item *) inbox; /* last first */
    atomic_bool is_idle;
    atomic_bool is_stuck; /* says the monitor */
    struct watch
        *_Atomic relinquished; /* watches of descriptors, which only this worker can stop */
    struct shared_queue shared;
    struct deadlines deadlines;
    struct watched watched;  /* the monitor's */
    _Atomic(uint64_t) stuck; /* how often; the monitor counts */
};

struct runtime {
    bool uses_gs;
    bool is_multi; /* several workers: locks are locks */
    bool is_deadlocked;
    bool looks_at_switches;   /* each switch is a tick */
    atomic_uint worker_count; /* spares included */
    atomic_uint spares;       /* that may take from others now */
    struct worker **workers;  /* with room for the spares */
    struct gs_threads_options options;
    atomic_bool is_running, is_stopping;
    atomic_uint idle;          /* workers with nothing to do */
    atomic_uint idle_epoch;    /* how often one had something to do again */
    _Atomic(uint64_t) foreign; /* threads spawned by kernel threads of the program's own */
    atomic_uint arriving;      /* such spawns under way */
    atomic_uint canceling_all; /* calls that are at it */
    struct gs_spin caller_lock;
    struct gs_list caller_threads; /* on stacks of the caller's */
    sigset_t signals;              /* that were blocked at first */
    atomic_bool has_bases;         /* some thread had a thread pointer of its own */
    atomic_bool is_monitor_asleep; /* it is to be woken by a worker that has something to do */
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
/* base.c: the same by the stack that is run, where the thread-local storage may be another; NULL: it is the kernel thread's. */
struct worker *gs_worker_from_stack(const void *sp);
void gs_worker_set_current(struct worker *worker);
/* In its kernel thread, before it runs any thread. */
void gs_worker_note_base(struct worker *worker);
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

#endif
