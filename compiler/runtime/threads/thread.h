/* The threads of a compiled program, and how they wait.
 *
 * A thread runs on the stack of a worker, and waits as a chain of records; or, while it is in a
 * call that was not compiled, on a stack of its own (`stack` is not NULL), where it waits as a user
 * thread. The functions of the runtime that wait are written once for both:
 *
 *     while ((n = try()) == -EAGAIN)
 *         if (gs_cc_wait_fd(self, fd, GS_READ))
 *             return 0;
 *
 * gs_cc_wait_... returns true if the thread leaves the worker's stack: then the function returns at
 * once, with any value, and is called again with the same arguments when the thread was woken. What
 * it has to remember until then is in `phase` and `progress`. */
#ifndef GS_COMPILER_THREAD_H
#define GS_COMPILER_THREAD_H

#include "compiler/runtime/start/abi.h"
#include "compiler/runtime/start/sanitizer.h"

#include <errno.h>
#include <gossamer/clock.h>
#include <gossamer/io.h>
#include <gossamer/list.h>
#include <gossamer/loop_timer.h>
#include <gossamer/resumable.h>
#include <gossamer/thread.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

/* A call that waits goes through these; a call begins with PHASE_NEW. The others are set by what
 * wakes the thread, or by the call itself. */
enum phase {
    PHASE_NEW,
    PHASE_WAITING, /* in the queue of an object, or for a descriptor */
    PHASE_CLAIMED, /* removed from the queue, and about to be woken */
    PHASE_GRANTED, /* it has what it waited for */
    PHASE_SECOND,  /* of a yield */
};

struct queue {
    struct thread *first, *last;
};

/* What few threads have. */
struct extra {
    struct values *values; /* of keys */
    struct kept *kept;     /* of its kernel thread's (kept.c) */
    char *locals;          /* thread-local variables */
    struct library_locals *library_locals;
    struct ender *enders; /* of libraries (library_locals.c) */
    struct gs_timer timer;
    uint64_t deadline_ns;
    bool has_timer;
    struct gs_cc_cleanup *cleanups;
    struct robust *robust;        /* mutexes (shared_mutex.c) */
    struct ceilings *ceilings;    /* of mutexes (scheduling.c) */
    _Atomic(uint64_t) mask;       /* of signals (masks.c) */
    _Atomic(uint64_t) pending;    /* signals to this thread */
    struct queued_signal *queued; /* those with a value, the last one first */
    uint64_t *replaced_mask;      /* NULL: a wait has not replaced it */
    char *end_of_stack;           /* of its own, while it has one */
    size_t stack_size;
    atomic_int waited_fd;          /* on a stack, and 1; 0: for none */
    struct gs_interrupt interrupt; /* of waits for several on a stack */
    struct handed_wait {
        size_t progress;
        uint64_t deadline_ns;
        unsigned char phase;
    } handed_wait; /* that a handler has interrupted (handed_signals.c) */
    bool is_handling;
    atomic_uint pool; /* the call in the pool, and what may end it (pool.c) */
    int pool_thread, pool_signal;
    bool has_pool_timer;
    timer_t pool_timer;
    uint32_t ignored;  /* bits of those that wake it at a word (futex.c) */
    stack_t alternate; /* for handlers; its size is 0: none */
    int jump_result;
    struct __jmp_buf_tag *jump; /* where it goes on, with what its handler has blocked (jumps.c) */
    uint64_t jump_blocked;
    char name[16];
};

struct thread {
    struct gs_resumable resumable;
    struct gs_cc_record *record; /* the innermost; NULL: none */
    union {
        void *(*start)(void *); /* until it starts */
        struct environment *environments;
    };
    void *argument;                 /* later its result */
    atomic_uintptr_t join;          /* JOIN_..., or the thread that joins this one */
    struct thread *next, *previous; /* in the queue of an object */
    size_t progress;                /* bytes that the call has transferred already */
    struct extra *extra;
    struct gs_thread *stack;
    int err; /* errno, while it does not run */
    atomic_uchar phase;
    atomic_uchar cancel; /* enum cancel: several */
    uint8_t outcome;     /* of a condition variable, while it locks the mutex again */
    bool has_started : 1, has_returned : 1, is_exiting : 1, is_first : 1;
    bool is_polling : 1; /* its stack is only used to wait for several descriptors */
    bool is_pooled : 1;  /* a kernel thread of the pool reads from a stream for it */
    bool has_mask : 1;   /* of signals, which is not empty */
#ifdef GS_CC_ASAN
    char *end_of_stack;
    size_t stack_size;
    void *fake;
#endif
};

/* Whether the thread was canceled; which handlers of signals have run since it began to wait: with
 * SA_RESTART, and without; and whether one has jumped to where the thread is to go on. */
enum cancel {
    CANCEL_REQUESTED = 1,
    CANCEL_DISABLED = 2,
    CANCEL_ASYNCHRONOUS = 4,
    INTERRUPT_RESTARTS = 8,
    INTERRUPT = 16,
    JUMP = 32,
    HAS_ATTRIBUTES = 64, /* none of these: it is in the table of attributes.h */
    HANDED = 128,        /* it has signals to handle (handed_signals.c) */
};

enum { JOIN_NONE, JOIN_DONE, JOIN_DETACHED };

/* Of the running thread, or of one that is in no queue. */
static inline void set_phase(struct thread *thread, enum phase phase)
{
    atomic_store_explicit(&thread->phase, (unsigned char)phase, memory_order_relaxed);
}

/* Another name of a function of the same file. */
#define ALIAS(of_) __attribute__((alias(#of_)))

/* The result of a call that sets errno; 0: no error. */
static inline int result_of(int err)
{
    if (!err)
        return 0;
    errno = err;
    return -1;
}

/* How many kernel threads run threads. */
extern unsigned gs_cc_workers;

/* Whether kernel threads of the C library call functions of the program (outside.c). */
extern atomic_bool gs_cc_has_outside_threads;

/* Whether this is a kernel thread that is none of the runtime's, and not in a handler. */
bool gs_cc_is_outside(void);

/* Start the first thread of the program. Returns NULL if there is no memory. */
struct thread *gs_cc_start_first(void *(*fn)(void *));

static inline struct thread *thread_self(void)
{
    return gs_cc_state.self;
}

/* ---- Spin locks ---- */

void gs_cc_spin(atomic_flag *lock);

/* Handlers of signals run in the kernel thread that they interrupt. */
static inline void spin_lock(atomic_flag *lock)
{
    gs_cc_state.locks++;
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_flag_test_and_set_explicit(lock, memory_order_acquire), 0))
        gs_cc_spin(lock);
}

static inline void spin_unlock(atomic_flag *lock)
{
    atomic_flag_clear_explicit(lock, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    gs_cc_state.locks--;
}

/* ---- Waiting (waits.c) ---- */

/* The caller returns, and so do all calls of the thread, which waits then. Returns true. */
static inline bool gs_cc_suspend(struct thread *self, bool is_external)
{
    gs_resumable_set_external(&self->resumable, is_external);
    gs_cc_state.suspending = 1;
    return true;
}

/* Wait until gs_cc_wake. Returns true if the caller must return (see above). */
bool gs_cc_wait(struct thread *self, bool is_external);

/* The same until the deadline: the caller looks at the clock. */
bool gs_cc_wait_until(struct thread *self, uint64_t deadline_ns, bool is_external);

/* Wait for GS_READ or GS_WRITE, at most until the deadline. Sets *ret_err to 0 or -errno when it
 * returns false. */
bool gs_cc_wait_fd(struct thread *self, int fd, unsigned direction, uint64_t deadline_ns,
                   int *ret_err);

void gs_cc_wake(struct thread *thread);

/* ---- What is kept for each kernel thread (kept.c) ---- */

void gs_cc_kept_new(struct thread *thread);
void gs_cc_kept_enter(struct thread *thread);
void gs_cc_kept_leave(struct thread *thread);
void gs_cc_kept_free(struct extra *extra);

static inline void kept_enter(struct thread *thread)
{
    if (__builtin_expect(__atomic_load_n(&gs_cc_kept, __ATOMIC_RELAXED), 0))
        gs_cc_kept_enter(thread);
}

static inline void kept_leave(struct thread *thread)
{
    if (__builtin_expect(__atomic_load_n(&gs_cc_kept, __ATOMIC_RELAXED), 0))
        gs_cc_kept_leave(thread);
}

/* Around a call by which a thread with a stack waits: other threads run meanwhile, and change what
 * belongs to the kernel thread. */
static inline void leave_stack(struct thread *self)
{
    kept_leave(self);
    gs_cc_state.self = NULL;
    gs_cc_sanitizer_leave_stack(self, false);
}

/* The running kernel thread gets the CPUs and the scheduling of the thread (scheduling.c). */
void gs_cc_scheduling_enter(const struct thread *thread);

static inline void return_to_stack(struct thread *self)
{
    gs_cc_sanitizer_enter_stack(self);
    gs_cc_state.self = self;
    unsigned flags = atomic_load_explicit(&self->cancel, memory_order_relaxed);
    if (__builtin_expect(gs_cc_state.scheduling || flags & HAS_ATTRIBUTES, 0))
        gs_cc_scheduling_enter(self);
    kept_enter(self);
}

/* The thread leaves the stack on which it runs for ever. */
void gs_cc_end_stack(struct thread *self);

/* Begin to measure a duration, or continue: the deadline is that of the first call. */
uint64_t gs_cc_deadline(struct thread *self, uint64_t deadline_ns);

/* The time of the monotonic clock at which this one will show it. */
uint64_t gs_cc_from_clock(clockid_t clock, const struct timespec *time);
uint64_t gs_cc_from_wall(const struct timespec *time);

/* A time that is not valid is an error of most calls. */
static inline bool is_valid_time(const struct timespec *time)
{
    return time->tv_nsec >= 0 && time->tv_nsec < (long)GS_SECOND;
}

static inline bool is_known_clock(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

static inline bool is_late(uint64_t deadline_ns)
{
    return deadline_ns != GS_NEVER && deadline_ns <= gs_clock_now();
}

/* A call has failed that a program may repeat until another thread lets it succeed: now and then
 * the others run before the next one. Returns true if the caller must return. */
bool gs_cc_turn(struct thread *self);

/* At the start of a call that may not have to wait: a loop of such calls would keep the worker for
 * ever, so others run now and then. Returns true if the caller must return. */
bool gs_cc_take_turn(struct thread *self);

static inline bool take_turn(struct thread *self)
{
    bool is_turn = --gs_cc_state.calls_left < 0 || self->phase == PHASE_SECOND;
    return __builtin_expect(is_turn, 0) && gs_cc_take_turn(self);
}

/* At the start of a call that ends with gs_cc_turn. */
static inline void begin_try(struct thread *self)
{
    if (self && self->phase == PHASE_SECOND)
        set_phase(self, PHASE_NEW);
}

/* In the child no other thread waits at a word (futex.c), or loads a library (libraries.c). */
void gs_cc_words_after_fork(void);
void gs_cc_libraries_after_fork(void);

/* Let the others run once (turns.c). */
int gs_cc_sched_yield(void);

/* A call that has waited is complete: the next one is a new one. */
void gs_cc_complete(struct thread *self);

/* The thread ends: its calls return. On a stack it does not return. */
void gs_cc_exit(struct thread *self, void *result);

/* It has ended, and nobody will join it. */
void gs_cc_free_thread(struct thread *thread);

/* The thread has ended: the one that joins it frees it. Returns JOIN_DETACHED (the caller does),
 * the thread that waits for it, or JOIN_NONE (join.c). */
uintptr_t gs_cc_end_for_joiner(struct thread *thread);

/* Returns what few threads have. */
struct extra *gs_cc_extra(struct thread *thread);

/* Call the function on a stack as large as those of POSIX threads. */
void gs_cc_call_on_stack(void (*call)(void *box), void *box);
/* The same, for a function of the runtime that needs little. */
void gs_cc_wait_on_stack(void (*call)(void *box), void *box);

/* The same for all that the first thread does. */
void gs_cc_run_first(void (*call)(void *));

/* ---- Cancellation (cancel.c) ---- */

/* At a cancellation point: whether the thread was canceled; it ends then, the caller returns. Does
 * not return if it has to jump. */
bool gs_cc_test_cancel(struct thread *self);

static inline bool is_canceled(const struct thread *self)
{
    return (atomic_load_explicit(&self->cancel, memory_order_relaxed) &
            (CANCEL_REQUESTED | CANCEL_DISABLED)) == CANCEL_REQUESTED;
}

static inline bool must_jump(const struct thread *self)
{
    return atomic_load_explicit(&self->cancel, memory_order_relaxed) & JUMP;
}

/* Whether a call that waits is to end by gs_cc_test_cancel. */
static inline bool must_cancel(const struct thread *self)
{
    return is_canceled(self) || must_jump(self);
}

/* The same for one that is no cancellation point. */
static inline bool must_leave(const struct thread *self)
{
    enum { AT_ONCE = CANCEL_REQUESTED | CANCEL_ASYNCHRONOUS };
    unsigned cancel = atomic_load_explicit(&self->cancel, memory_order_relaxed);
    return cancel & JUMP || (cancel & (AT_ONCE | CANCEL_DISABLED)) == AT_ONCE;
}

/* The thread goes on where its handler has jumped to (jumps.c). */
void gs_cc_jump_for_handler(struct thread *self);

/* At the end of a call that has waited. */
static inline void jump_if_told(struct thread *self)
{
    if (__builtin_expect(must_jump(self), 0))
        gs_cc_jump_for_handler(self);
}

/* In place of glibc's, which is larger, and is needed in kernel threads of the C library. */
struct gs_cc_cleanup {
    void (*fn)(void *);
    void *argument;
    struct gs_cc_cleanup *next;
};
union gs_cc_cleanup_buffer {
    struct gs_cc_cleanup own;
    struct _pthread_cleanup_buffer of_libc;
};
void gs_cc__pthread_cleanup_push(struct gs_cc_cleanup *cleanup, void (*fn)(void *), void *argument);
void gs_cc__pthread_cleanup_pop(struct gs_cc_cleanup *cleanup, int execute);

/* Run the cleanups and the destructors of the values. Called on a stack. */
void gs_cc_run_cleanups(struct thread *self);

/* The same on the stack of the call that ends: they are in its frames, as what they look at. Does
 * not return if one of a library is among them. */
void gs_cc_run_cleanups_on_stack(struct thread *self);
void gs_cc_destroy_values(struct thread *self);
bool gs_cc_has_cleanups(const struct thread *self);

/* ---- Mutexes (mutex.c), as other objects use them ---- */

struct mutex;
/* Lock it again after a wait. Returns true if the caller must return; otherwise *ret_err is as
 * pthread_mutex_lock returns it. */
bool gs_cc_relock(struct thread *self, struct mutex *mutex, int *ret_err);
/* Whether the running thread may unlock it. */
bool gs_cc_is_unlockable(const struct mutex *mutex);
void gs_cc_unlock(struct mutex *mutex);

/* ---- Queues of waiting threads; the caller holds the object's lock ---- */

static inline void queue_append(struct queue *queue, struct thread *thread)
{
    atomic_store_explicit(&thread->phase, PHASE_WAITING, memory_order_relaxed);
    thread->next = NULL;
    thread->previous = queue->first ? queue->last : NULL;
    *(queue->first ? &queue->last->next : &queue->first) = thread;
    queue->last = thread;
}

static inline void queue_remove(struct queue *queue, struct thread *thread)
{
    *(thread->previous ? &thread->previous->next : &queue->first) = thread->next;
    if (thread->next)
        thread->next->previous = thread->previous;
    else
        queue->last = thread->previous;
}

static inline struct thread *queue_pop(struct queue *queue)
{
    struct thread *thread = queue->first;
    if (thread) {
        queue_remove(queue, thread);
        atomic_store_explicit(&thread->phase, PHASE_CLAIMED, memory_order_relaxed);
    }
    return thread;
}

/* The thread, which was removed from a queue, has what it waited for. Wakes it. */
static inline void grant(struct thread *thread)
{
    atomic_store_explicit(&thread->phase, PHASE_GRANTED, memory_order_release);
    gs_cc_wake(thread);
}

#endif
