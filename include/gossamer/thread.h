/* User-level threads: very many of them, on a few kernel threads.
 *
 *     static void *serve(void *connection)             plain blocking code
 *     {
 *         while ((n = gs_recv(fd, bytes, sizeof bytes, 0, GS_NEVER)) > 0)
 *             ...
 *     }
 *     static void *first(void *argument)
 *     {
 *         while ((fd = gs_accept(listener, NULL, NULL, 0, GS_NEVER)) >= 0)
 *             err = gs_thread_spawn(NULL, serve, connection_of(fd), NULL);
 *     }
 *     int err = gs_threads_run(NULL, first, NULL, NULL);
 *
 * Threads are switched where they wait, and nowhere else: one that computes keeps its worker until
 * it waits or yields. A worker is a kernel thread with an event loop. A thread that has run stays
 * on its worker, so that errno, `__thread` variables and what libraries keep by thread behave as
 * they do with kernel threads, but are shared by all threads of the worker: they may change across
 * any call that can wait. A thread that has not run yet is started by whichever worker has time;
 * one with the attribute `migrates` may go on elsewhere after each wait, and must not keep the
 * address of anything thread-local across one.
 *
 * A worker that is stuck, because its thread computes or blocks in a system call, keeps those that
 * have run on it. With several workers, a monitor notices after 10 ms that threads wait for one,
 * reports once what keeps it, and moves what may move: threads that have not started and those that
 * migrate, also from where they wait for a descriptor or a deadline. When all workers are stuck it
 * adds up to four more for as long as it takes.
 *
 * Across a call that can wait, hold no kernel mutex and no lock of stdio (flockfile): another
 * thread of the same worker that wants it would stop the worker, or find itself the owner.
 *
 * Deadlines: every call that can wait takes deadline_ns, a point on the monotonic clock. 0: do not
 * wait; GS_NEVER: no limit. Such a call returns -ETIMEDOUT when the deadline has come first, and
 * -ECANCELED when the thread was cancelled. What can be done at once is done, even if the deadline
 * has passed.
 *
 * Unless the comment says otherwise, functions are called by user threads. "Any kernel thread"
 * means just that, while the threads run; no function but gs_threads_run is for signal handlers or
 * for programs in which no user threads run.
 */
#ifndef GOSSAMER_THREAD_H
#define GOSSAMER_THREAD_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct gs_thread;

/* What a thread runs; what it returns is the thread's result. */
typedef void *gs_thread_fn(void *argument);

/* ---- All threads: start, end, numbers ---- */

struct gs_loop;
struct gs_policy;

/* How a worker waits that has nothing to run; worker: the first is 1. It calls gs_loop_step once,
 * with a deadline of its choice, and returns the result. So a program that knows how soon something
 * will come may look for it (0) rather than sleep (GS_NEVER): to be woken takes microseconds. Called
 * on the worker's own stack, where no user thread is running. */
typedef int gs_threads_wait_fn(struct gs_loop *loop, unsigned worker, void *data);

/* All zero: the defaults. */
struct gs_threads_options {
    unsigned workers;  /* kernel threads that run user threads; 0: one */
    size_t stack_size; /* of threads that ask for none; 0: 64 KiB */
    unsigned pool;     /* most kernel threads for calls that block; 0: four */
    int dump_signal;   /* write a dump of all threads when this signal comes; 0: none */
    bool is_silent;    /* write no reports */
    int report_fd;     /* where reports go: deadlock, stack overflow, dumps; 0: standard error */
    uint64_t stuck_ns; /* a worker that one thread keeps for so long is stuck; 0: 10 ms; GS_NEVER:
                        * nobody looks */
    const struct gs_policy *policy; /* NULL: by priority, first come first served */
    gs_threads_wait_fn *wait;       /* NULL: sleep until something comes */
    void *wait_data;
    /* NULL, or called by a worker whose loop has failed for good, by which the run ends: what
     * gs_run_blocking has under way had better return then. */
    void (*failed)(void);
};

/* Run fn in the first user thread. The calling kernel thread is the first worker; the others are
 * made, and gone when the call returns: when every thread has ended. ret_result may be NULL: the
 * first thread's result. Returns 0, -EBUSY (user threads run already), -EINVAL, -ENOMEM, -EMFILE,
 * -EAGAIN (no kernel thread to be had), the error by which a worker's loop failed for good, or
 * -EDEADLK: threads are left that wait for each other and can never go on; what they are waiting for
 * was reported. With these two, threads are given up. */
GS_API GS_MUST_CHECK int gs_threads_run(const struct gs_threads_options *options, gs_thread_fn *fn,
                                        void *argument, void **ret_result);

/* Numbers since the start, for programs to show. Any kernel thread. */
struct gs_threads_counts {
    uint64_t spawned;
    uint64_t live;
    uint64_t switches; /* lags behind by up to 64 a worker */
    uint64_t steals;   /* threads taken over from another worker */
    uint64_t polls;    /* turns of the workers' loops */
    uint64_t ready;    /* in the run queues now */
    uint64_t stacks;   /* made so far, in use or kept for reuse */
    uint64_t stuck;    /* times that a worker was found stuck */
};
GS_API void gs_threads_counts(struct gs_threads_counts *ret_counts);

/* The same of one worker, the first is 1, where it is told apart: spawned (by threads that it ran),
 * switches, steals, polls, ready and stuck; the rest is 0. Returns 0, or -EINVAL: there is no such
 * worker, now. */
GS_API int gs_threads_worker_counts(unsigned worker, struct gs_threads_counts *ret_counts);

/* Cancel every thread but the caller: all that were spawned before this returns. A thread that was
 * cancelled may still spawn others. */
GS_API void gs_threads_cancel_all(void);

/* Write all threads to fd: name, state, what each waits for and since when, use of its stack, and
 * its calls: by the unwinder of the compiler, so with or without frame pointers; functions that are
 * not exported are named if the program was not stripped. Of threads that run or wait on other
 * workers, or migrate, the calls are found by frame pointers only; a worker that computes is asked
 * for them by a signal, the last of the real-time ones that the program has left free. What sits in
 * a system call is not asked, as that would end the call: it is named. */
GS_API void gs_threads_dump(int fd);

/* How stacks are guarded against overflow: "regions" (MADV_GUARD_INSTALL), "mprotect", or "canary".
 * GOSSAMER_NO_GUARD_REGIONS in the environment does without the first. */
GS_API const char *gs_threads_guard(void);

/* The name of the poller that the calling thread's worker is on (loop.h: GS_POLLER chooses it). */
GS_API const char *gs_threads_poller(void);

/* Give the memory of finished threads' stacks back to the kernel. Any user thread. */
GS_API void gs_threads_trim(void);

/* ---- One thread ---- */

enum gs_priority { /* of those that are ready, higher runs first; none is starved */
                   GS_PRIORITY_NORMAL,
                   GS_PRIORITY_HIGH,
                   GS_PRIORITY_LOW,
};

/* A context to start in, for those who bring threads of another kind: execution begins at pc as if
 * jumped to, with these registers, and never returns there; the thread ends with gs_thread_exit. */
struct gs_thread_start {
    void *pc;
    void *sp;                /* NULL: the end of the thread's stack; else within it, by which a
                              * mutex knows its owner */
    uintptr_t frame;         /* rbp; x29 */
    uintptr_t preserved[10]; /* rbx, r12 to r15; x19 to x28 */
};

/* All zero: the defaults. */
struct gs_thread_attributes {
    const char *name; /* for reports; copied, up to 23 bytes */
    size_t
        stack_size; /* rounded up to 16 KiB, 64 KiB, 256 KiB or 1 MiB; 0: the runtime's default */
    enum gs_priority priority;
    bool migrates;   /* may continue on another worker after each wait */
    unsigned worker; /* stay on this one, the first is 1; 0: any */
    void *stack;     /* a stack of the caller's, its lowest address, of stack_size bytes; it must
                        * stay until the thread was joined. It has no guard of ours */
    const struct gs_thread_start *start; /* instead of fn */
    void *thread_pointer; /* the FS base on x86-64, TPIDR_EL0 on aarch64, while the thread runs: it
                           * brings thread-local storage of its own, as the ABI and the C library
                           * lay it out. NULL: its worker's, which it shares */
};

/* Start a thread. ret_thread: to be joined or detached; NULL: it is detached. Returns 0, -ENOMEM,
 * -EAGAIN (no stack is left in the reservation), -EINVAL, or -EOPNOTSUPP: a thread pointer together
 * with `stack` or `start`, on a processor where programs cannot set the GS base. Any kernel
 * thread. */
GS_API GS_MUST_CHECK int gs_thread_spawn(const struct gs_thread_attributes *attributes,
                                         gs_thread_fn *fn, void *argument,
                                         struct gs_thread **ret_thread);

/* Wait for the thread's end, which also ends the use of `thread`. ret_result may be NULL. Once only,
 * by one thread. Returns 0, -ETIMEDOUT, -ECANCELED (the caller was), or -EDEADLK (itself). */
GS_API GS_MUST_CHECK int gs_thread_join(struct gs_thread *thread, uint64_t deadline_ns,
                                        void **ret_result);

/* Nobody will join it: the last use of `thread`. */
GS_API void gs_thread_detach(struct gs_thread *thread);

/* Let the others of this worker that are ready run first. */
GS_API void gs_thread_yield(void);

/* Returns 0 at the deadline, or -ECANCELED. */
GS_API int gs_thread_sleep(uint64_t deadline_ns);

/* End the calling thread. */
GS_API _Noreturn void gs_thread_exit(void *result);

/* The calling user thread. NULL in a kernel thread that runs none. */
GS_API struct gs_thread *gs_thread_self(void);

GS_API const char *gs_thread_name(const struct gs_thread *thread);
GS_API void gs_thread_set_priority(struct gs_thread *thread, enum gs_priority priority);

/* Fork the process. In the child the caller is the only thread, and its worker the only one; new
 * threads, waits and I/O work there. The stacks of the others are forgotten without cleanup, and so
 * is what they had waited for; mutexes that they held stay locked. gs_threads_run returns in the
 * child, when its threads have ended, if the caller's worker was the first; else the child exits
 * with status 0. A plain fork is for children that exec or _exit at once. Returns as fork, or -errno:
 * with -ENOMEM, -EMFILE or -ENFILE in the child, its loop could not be made anew, and it is to
 * exit; -EOPNOTSUPP: the caller has a thread pointer of its own. */
GS_API pid_t gs_fork(void);

/* The monotonic clock as the calling thread's worker last read it, when it looked for events: cheaper
 * than gs_clock_now, and behind it by as long as threads have run since. */
GS_API uint64_t gs_threads_now(void);

/* Call fn, which must not wait or end the thread, on the stack of the calling thread's worker. That is
 * large, and in the processor's caches from the last use; so what a thread does between its waits
 * needs no stack of its own. Returns what fn returns. */
GS_API void *gs_thread_borrow(void *(*fn)(void *argument), void *argument);

/* ---- Park: wait for a wake-up, from which other primitives can be built ---- */

/* Wait until gs_thread_unpark, or go on at once if it came since the last park: one wake-up is kept.
 * Returns 0, -ETIMEDOUT or -ECANCELED. */
GS_API GS_MUST_CHECK int gs_thread_park(uint64_t deadline_ns);

/* What was written before is seen by the thread that goes on. Any kernel thread. */
GS_API void gs_thread_unpark(struct gs_thread *thread);

/* ---- Cancellation ----
 * A cancelled thread is not torn down: from then on its calls that would wait return -ECANCELED, and
 * it ends in its own order. Locking a mutex is never interrupted, and a condition is left with its
 * mutex locked. */

GS_API void gs_thread_cancel(struct gs_thread *thread);

/* Of the calling thread: whether it was cancelled, and whether its waits are interrupted by that
 * (true at first; code that cleans up may switch it off for a while). Returns the former value. */
GS_API bool gs_thread_is_canceled(void);
GS_API bool gs_thread_set_cancelable(bool is_cancelable);

/* A call to be made when the thread ends, by return or gs_thread_exit: last pushed, first called. In
 * the caller's storage, usually the frame that holds what is to be cleaned up. */
struct gs_cleanup {
    struct gs_cleanup *next;
    void (*fn)(void *argument);
    void *argument;
};
GS_API void gs_cleanup_push(struct gs_cleanup *cleanup, void (*fn)(void *), void *argument);

/* The last one pushed; called now if run. */
GS_API void gs_cleanup_pop(bool run);

/* ---- Values by thread ---- */

#define GS_THREAD_KEYS 64

/* destroy, if not NULL, is called at the end of each thread that has a value. A key lasts as long as
 * the program. Returns the key, or -EAGAIN. Any kernel thread. */
GS_API GS_MUST_CHECK int gs_thread_key_new(void (*destroy)(void *value));

/* NULL before it was set. */
GS_API void *gs_thread_value(int key);

/* Returns 0, -EINVAL, or -ENOMEM, never when the thread has set a value before. */
GS_API GS_MUST_CHECK int gs_thread_set_value(int key, void *value);

/* ---- Policies: which of those that are ready runs next ----
 * One queue a worker, used by that worker only. An item is a thread that is ready, with what it told
 * about itself. All members are required. */

struct gs_policy_item {
    struct gs_policy_item *child; /* the policy's own, while it has the item; key and next, too */
    uint64_t key;
    uint64_t remaining; /* work, as given with gs_thread_set_remaining */
    const void *place;  /* where it last waited: the same for the same object (of I/O: the same kind
                         * of event) and the same call in the program. Not to be followed. NULL: it
                         * yielded */
    struct gs_policy_item *next;
    uint8_t priority; /* enum gs_priority */
};
struct gs_policy {
    const char *name;
    size_t size; /* of a queue, which is zeroed at first */
    void (*push)(void *queue, struct gs_policy_item *item);
    struct gs_policy_item *(*pop)(void *queue); /* NULL: empty */
};

/* Shortest remaining work first, within a class of priority. Who waits ages: a thread is overtaken
 * by at most 16,384 later arrivals for each time that its work is twice theirs, and by at most a
 * million for each class above its own. */
extern GS_API const struct gs_policy gs_policy_shortest;

/* Threads that waited at the same place run in a row, up to 256 of them before others have their
 * turn; rows go in the order in which their first thread became ready. Of any priority. */
extern GS_API const struct gs_policy gs_policy_cohort;

/* The calling thread's remaining work, in any unit, for gs_policy_shortest. */
GS_API void gs_thread_set_remaining(uint64_t work);

#endif
