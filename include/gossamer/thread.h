/* User-level threads: many threads on a few kernel threads.
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
 * Scheduling is cooperative: threads are switched only in calls that can wait (those that take a
 * deadline, if it is not 0), in gs_once, and in gs_thread_yield, so a thread that computes occupies
 * its worker until it makes such a call. A worker is a kernel thread with an event loop. A thread
 * that has started stays on its worker, so that errno, `__thread` variables and the thread-specific
 * data of libraries work as with kernel threads, but are shared by all threads of the worker: they
 * may change across any call that can wait. A thread that has not started yet is started by the
 * first worker that is free. One with the attribute `migrates` may resume on another worker after
 * each such call, and must not keep the address of anything thread-local across one.
 *
 * A worker that is stuck, because its thread computes or blocks in a system call, delays all
 * threads that have started on it. A monitor, which is a kernel thread of its own, notices when
 * something has waited for such a worker for 10 ms: a ready thread, a deadline that has passed, a
 * descriptor that is ready, or a message. It reports once what blocks the worker, and what waits.
 * With several workers it also moves the threads that can be moved: those that have not started and
 * those that migrate, including ones that wait for a descriptor or a deadline. If all workers are
 * stuck it adds up to four more, for as long as they are.
 *
 * Do not hold a pthread mutex or a stdio lock (flockfile) across a call that can wait: another
 * thread of the same worker that locks it would block the worker, or be taken for its owner.
 *
 * Deadlines: every call that can wait takes deadline_ns, a time of the monotonic clock. 0 means not
 * to wait; GS_NEVER means no limit. Such a call returns -ETIMEDOUT if the deadline passes first,
 * -ECANCELED if the thread was canceled, and -ENOMEM if there is no memory for the deadline. What
 * can be done at once is done, even if the deadline has passed.
 *
 * Threads: unless its description says otherwise, a function may only be called by user threads.
 * "Any kernel thread" means that any kernel thread may call it while gs_threads_run is running.
 * While no user threads run, only gs_threads_run and functions whose description says so may be
 * called. Signal handlers may call no function. The library gossamer_checked stops at
 * calls that break these and other rules (docs/debugging.md).
 *
 * Signals: handlers of this library run on the alternate stack of each worker, of 64 KiB, and never
 * on a thread's. A handler of the program runs there, too, if it is installed with SA_ONSTACK;
 * otherwise it runs on the stack of the interrupted thread, which must then also have room for the
 * handler and for the kernel's frame (getauxval(AT_MINSIGSTKSZ): up to 11 KiB on x86-64). Install
 * handlers with SA_ONSTACK, and do not call sigaltstack in them; or let a thread wait for the
 * signal (gs_wait_signal, gs_wait_signals). The library itself uses SIGSEGV, unless leaves_signals
 * is set. When needed, it also uses the last real-time signal that the program does not use, to
 * interrupt system calls that block a kernel thread for too long.
 */
#ifndef GOSSAMER_THREAD_H
#define GOSSAMER_THREAD_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

GS_BEGIN_DECLS

struct gs_thread;

/* What a thread runs; what it returns is the thread's result. */
typedef void *gs_thread_fn(void *argument);

/* ---- The runtime of user threads ---- */

struct gs_loop;

/* Called by an idle worker to wait for events; worker: its number, from 1. It calls
 * gs_loop_run_once once, with a deadline of its choice, and returns the result. A program that
 * expects an event soon may poll (0) rather than sleep (GS_NEVER), since a wake-up takes
 * microseconds. Called on the worker's own stack, not by a user thread. */
typedef int gs_threads_wait_fn(struct gs_loop *loop, unsigned worker, void *data);

/* All zero: the defaults. */
struct gs_threads_options {
    unsigned workers;  /* kernel threads that run user threads; 0: one */
    size_t stack_size; /* default stack size of a thread; 0: 56 KiB */
    /* The maximum number of kernel threads for each kind of blocking call: functions
     * (gs_run_blocking), calls on open files, calls on paths, and look-ups of names, those of
     * /etc/hosts and others. Kinds do not share threads, so no kind waits for another. 0: four for
     * the first, and 64 each for the others, which may wait for disks, other programs and
     * machines. */
    unsigned max_pool_threads;
    int dump_signal;     /* a signal that writes a dump of all threads; 0: none */
    bool is_silent;      /* write no reports */
    bool leaves_signals; /* install no handler of SIGSEGV: a stack overflow is not reported */
    /* Before a thread gets a shared stack, all below its own frames is set to zero: it cannot read
     * what others left there. This takes as long as writing up to 56 KiB each time that a shared
     * stack changes hands. */
    bool wipes_shared_stacks;
    int report_fd; /* for reports: deadlock, stack overflow, dumps; 0: standard error */
    /* A worker is stuck if one thread occupies it for this long. 0: 10 ms; GS_NEVER: no monitor, so
     * with one worker the process has only one kernel thread until a blocking call needs another.
     * Some system calls require a single thread (unshare, setns with a user namespace); others
     * affect only the calling kernel thread (seccomp, capabilities; unshare with CLONE_FILES, after
     * which the monitor keeps open what it shared). While kernel threads share their descriptors,
     * the kernel counts the uses of a file in each call, 10 to 50 ns; and when the monitor reports,
     * it opens a file for a moment, so the program may not get the lowest number then. */
    uint64_t stuck_ns;
    gs_threads_wait_fn *wait; /* NULL: sleep until an event */
    void *wait_data;
    /* Called by a worker whose loop has failed permanently, which ends the run. Functions called by
     * gs_run_blocking should return promptly then. NULL: none. */
    void (*on_failure)(void);
};

/* Run fn in the first user thread, and return when all threads have ended. The calling kernel
 * thread is the first worker; the others exist during the call. ret_result: the first thread's
 * result; may be NULL. Returns 0, -EBUSY (it is running already), -EINVAL (an option is invalid, or
 * GS_POLLER names no poller), -ENOMEM, -EMFILE, -ENFILE, -EAGAIN (a kernel thread cannot be
 * created), -ENOTSUP (the program is built with the thread sanitizer, and the library is not),
 * -EDEADLK (the remaining threads wait for each other; a report says for what), or the error with
 * which a worker's loop failed permanently. After the last two errors, the remaining threads are
 * abandoned without cleanup. Objects at which they waited, or which they hold, must be initialised
 * again before they are used again. */
GS_API GS_MUST_CHECK int gs_threads_run(const struct gs_threads_options *options, gs_thread_fn *fn,
                                        void *argument, void **ret_result);

/* ---- Statistics, reports and properties of the runtime ----
 *
 *     struct gs_threads_stats stats;
 *     gs_threads_stats(&stats);
 *     printf("%" PRIu64 " threads, of which %" PRIu64 " are ready\n", stats.live, stats.ready);
 */

/* Get the statistics since the start of the run. Any kernel thread. */
struct gs_threads_stats {
    uint64_t spawned;
    uint64_t live;
    uint64_t switches; /* lags behind by up to 64 for each worker */
    uint64_t steals;   /* threads taken from another worker's queue */
    uint64_t polls;    /* iterations of the workers' loops */
    uint64_t ready;    /* threads in the run queues now */
    uint64_t stacks;   /* allocated so far, in use or kept for reuse */
    uint64_t stuck;    /* how often a worker was found stuck */
    /* Copies of waiting threads' frames off shared stacks, their bytes, and the copies of more than
     * 4 KiB. */
    uint64_t evictions, evicted_bytes, misfits;
};
GS_API void gs_threads_stats(struct gs_threads_stats *ret_stats);

/* Get the statistics of one worker, numbered from 1: spawned (by threads that it ran), switches,
 * steals, polls, ready and stuck; the other members are 0. Returns 0, or -EINVAL if there is no
 * such worker at present. */
GS_API int gs_threads_worker_stats(unsigned worker, struct gs_threads_stats *ret_stats);

/* Write all threads to fd. Threads that run come first, each with its calls. The others are written
 * in groups, the largest first: a group has the same state, waits for the same kind of object, and
 * has the same calls of the program. It is written with the number of its threads, and the one that
 * has waited longest: its name, what it waits for and for how long, and its stack usage.
 * Descriptors are written with the address of the peer. There are up to 256 groups; threads beyond
 * are counted.
 *
 * The compiler's unwinder finds the calls, so frame pointers are not needed, except for threads
 * that migrate, or that wait on other workers. Functions that are not exported have names unless
 * the program was stripped. Of the library's newest calls, only the function that waits is shown.
 * For a thread that runs on another worker, only its system call is named, or that it computes. */
GS_API void gs_threads_dump(int fd);

/* Returns how stacks are guarded against overflow: "regions" (MADV_GUARD_INSTALL), "mprotect", or
 * "canary". The environment variable GOSSAMER_NO_GUARD_REGIONS disables the first. */
GS_API const char *gs_threads_stack_guard(void);

/* Returns the name of the poller of the calling thread's worker (loop.h: GS_POLLER selects it). */
GS_API const char *gs_threads_poller(void);

/* Return the memory of free stacks to the kernel. Without this call, it is returned when it was not
 * needed for a second, except that of some stacks. */
GS_API void gs_threads_trim(void);

/* ---- The life of a thread ---- */

/* Ready threads of higher priority run first; none is starved. */
enum gs_priority {
    GS_PRIORITY_NORMAL,
    GS_PRIORITY_HIGH,
    GS_PRIORITY_LOW,
};

/* A context to start in, for programs that create threads by other means: execution starts at pc as
 * after a jump, with these registers, and must not return from there; the thread ends with
 * gs_thread_exit. */
struct gs_thread_start {
    void *pc;
    void *sp; /* within the thread's stack, by which a mutex knows its owner; NULL: its end */
    uintptr_t frame;         /* rbp; x29 */
    uintptr_t preserved[10]; /* rbx, r12 to r15; x19 to x28 */
};

/* All zero: the defaults. */
struct gs_thread_attributes {
    const char *name; /* for reports; copied, up to 23 bytes */
    /* Rounded up to 16, 56, 64 or 256 KiB or 1, 8 or 64 MiB; 0: the default. A stack
     * takes address space; memory is used for the pages that were touched, until the thread has
     * ended and its stack is not needed (gs_threads_trim). Stacks of 8 and 64 MiB, at most 8192 of
     * each, reserve addresses one by one; with limited addresses (RLIMIT_AS), all stacks do. */
    size_t stack_size;
    enum gs_priority priority;
    bool migrates;   /* may resume on another worker after each wait */
    unsigned worker; /* run on this one only, numbered from 1; 0: any */
    /* A stack of the caller's: its lowest address, of stack_size bytes. It must stay valid until
     * the thread was joined, and has no guard. NULL: allocate one. */
    void *stack;
    const struct gs_thread_start *start; /* instead of fn */
    /* Called when the thread has ended and neither its stack nor its control block is used any
     * more, with its result: it may free `stack`, and what thread_pointer points to. It runs on the
     * stack and with the thread pointer of the worker, and must not wait. Only for detached threads
     * with `stack`. NULL: nothing is called. */
    void (*on_end)(void *result);
    /* The FS base on x86-64, TPIDR_EL0 on aarch64, while the thread runs: thread-local storage of
     * its own, laid out as the ABI and the C library define. NULL: it shares its worker's. */
    void *thread_pointer;
    /* The thread shares one of a few stacks of its worker. While it waits, other threads may run
     * there: its frames are copied to other memory, and back to the same addresses before it
     * resumes. A waiting thread takes a control block and this copy, some hundred bytes, and
     * starting one touches no new page.
     *
     * The program promises that nobody else uses the stack during a wait: no other thread, signal
     * handler or system call in progress has the address of a variable there. The argument of
     * gs_run_blocking, a gs_scope whose members run, a mutex or another object of sync.h must be
     * elsewhere. Other arguments of the library may be on the stack: items, cases, paths and
     * buffers are copied to the heap if others use them during a wait, which returns -ENOMEM if
     * that is impossible. A broken promise overwrites another thread's variables; with
     * gossamer_checked such a thread has a stack of its own, which is inaccessible while it waits,
     * and the report names both threads.
     *
     * The thread stays on the worker that runs it first. Functions whose threads have more than 4
     * KiB on the stack when they wait get stacks of their own from then on. No effect on a thread
     * with a stack, a start or a thread pointer of its own, or with a stack_size (of the thread or
     * the run) above 56 KiB; nor with limited addresses (RLIMIT_AS), sanitizers and valgrind. */
    bool stack_is_shared;
};

/* Start a thread. ret_thread: must be joined or detached; NULL: it is detached. Any kernel thread.
 * Returns 0, -ENOMEM, -EAGAIN (no stack of that size is left), -EINVAL (no such worker or
 * priority, no such stack size, or on_end for a thread that must be joined or has no `stack`), or
 * -EOPNOTSUPP (a thread pointer together with `stack` or `start`, on a CPU where programs cannot
 * set the GS base). */
GS_API GS_MUST_CHECK int gs_thread_spawn(const struct gs_thread_attributes *attributes,
                                         gs_thread_fn *fn, void *argument,
                                         struct gs_thread **ret_thread);

/* Wait until the thread has ended; `thread` is invalid after a return of 0. ret_result may be NULL.
 * Only one thread may join another. Returns 0, -ETIMEDOUT, -ECANCELED (the caller was canceled),
 * -ENOMEM (only with a deadline), or -EDEADLK (the caller is `thread`). */
GS_API GS_MUST_CHECK int gs_thread_join(struct gs_thread *thread, uint64_t deadline_ns,
                                        void **ret_result);

/* Detach; do not use `thread` again. */
GS_API void gs_thread_detach(struct gs_thread *thread);

/* End the calling thread. */
GS_API GS_NORETURN void gs_thread_exit(void *result);

/* Returns the name of the thread, which is valid as long as the thread. */
GS_API const char *gs_thread_name(const struct gs_thread *thread);

/* Set the priority, which counts from the next time that the thread becomes ready. */
GS_API void gs_thread_set_priority(struct gs_thread *thread, enum gs_priority priority);

/* ---- The running thread ---- */

/* Returns the calling user thread; NULL in kernel threads that are no workers. */
GS_API struct gs_thread *gs_thread_self(void);

/* Workers that the monitor has added have numbers above options.workers, by up to this. */
#define GS_EXTRA_WORKERS 4

/* Let the other ready threads of this worker run first. */
GS_API void gs_thread_yield(void);

/* The same, but let the worker poll for events first, so threads that these make ready also run
 * before the caller. A thread that computes should call this about every 10 ms. gs_thread_yield is
 * cheaper, because it polls only occasionally. */
GS_API void gs_thread_end_turn(void);

/* Set whether the calling worker avoids waking idle workers. By default (false), when it makes a
 * thread ready that any worker may run, it wakes an idle worker. That is wasted if the caller waits
 * soon afterwards, because its own worker can then run the thread. While `holds` is true, an idle
 * worker is woken only for a second ready thread. A caller that does not wait after all should call
 * gs_threads_wake_idle. Returns the previous value. Any kernel thread; no effect if it is not a
 * worker. */
GS_API bool gs_threads_hold_wakeups(bool holds);

/* Wake an idle worker if there is a ready thread which any worker may run. Any kernel thread. */
GS_API void gs_threads_wake_idle(void);

/* Wait until the deadline. Returns 0 at the deadline, -ECANCELED or -ENOMEM. */
GS_API int gs_thread_sleep(uint64_t deadline_ns);

/* Returns the monotonic clock as the calling thread's worker last read it, when it polled for
 * events: cheaper than gs_clock_now, and behind it by the time for which threads have run since. */
GS_API uint64_t gs_threads_now(void);

/* Call fn on the stack of the calling thread's worker; fn must return, and must not wait, fork or
 * end the thread. Work between two waits thus needs no room on the thread's own stack. The worker's
 * stack is large, and usually still in the CPU's caches. Returns what fn returns. */
GS_API void *gs_thread_call_on_worker_stack(void *(*fn)(void *argument), void *argument);

/* ---- A fork of a process with user threads ----
 *
 *     pid_t pid = gs_fork();
 *     if (pid > 0)
 *         err = gs_wait_child(pid, GS_NEVER, &status);
 */

/* Fork the process. In the child the caller is the only thread, and its worker the only one; new
 * threads, waits and I/O work there. The other threads are discarded without cleanup, and so are
 * their waits; mutexes that they held stay locked. When the child's threads have ended,
 * gs_threads_run returns there if the caller's worker was the first one; otherwise the child exits
 * with status 0. The child has no monitor. A plain fork is for children that exec or _exit at once.
 *
 * Returns as fork(2): the child's process id, and 0 in the child; or -EAGAIN (too many processes),
 * -ENOMEM, or -EOPNOTSUPP (the caller has a thread pointer of its own, or runs in
 * gs_thread_call_on_worker_stack). If the child's loop could not be created, it returns -ENOMEM,
 * -EMFILE or -ENFILE there, and the child must exit.
 *
 * Handlers of pthread_atfork may wait, in the child as its only thread. */
GS_API pid_t gs_fork(void);

/* Called immediately before and after the fork, so no handler of pthread_atfork runs in between;
 * `before` runs in the parent. They must not wait. */
struct gs_fork_functions {
    void (*before)(void *argument), (*in_parent)(void *argument), (*in_child)(void *argument);
};

/* Fork the process as gs_fork does, with such functions. If the child must exit, it does not call
 * its own. Returns what gs_fork returns. */
GS_API pid_t gs_fork_with(const struct gs_fork_functions *functions, void *argument);

/* Register the library's handlers of pthread_atfork now, rather than when the library is
 * initialised. Handlers that were registered earlier run with locks of the library held, and must
 * not call it. A program that links the static library, and shared libraries whose constructors
 * register such handlers, should therefore call this from .preinit_array. Returns 0 or -ENOMEM. */
GS_API int gs_fork_register(void);

/* Call fork_process(argument), which must fork as fork(2) does, with locks of the library held: so
 * if it runs handlers of pthread_atfork, these must not call the library. Returns the result of
 * fork_process: the process id, 0 in the child, or a negative error. In the child the run is over,
 * without cleanup: the caller continues as the only kernel thread, on its stack and with its thread
 * pointer, and no function of user threads may be called before the next gs_threads_run. The thread
 * may have a thread pointer of its own. */
GS_API long gs_fork_leaving(long (*fork_process)(void *argument), void *argument);

/* ---- Park: a wait from which other primitives can be built ----
 *
 *     while (!atomic_load(&is_done))
 *         err = gs_thread_park(GS_NEVER);
 *
 *     atomic_store(&is_done, true);      in any kernel thread
 *     gs_thread_unpark(thread);
 */

/* Wait until gs_thread_unpark is called, or return at once if it was called since the last park: at
 * most one wake-up is pending. Returns 0, -ETIMEDOUT, -ECANCELED or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_thread_park(uint64_t deadline_ns);

/* Wake the thread, or let its next park return at once. What the caller has written before is
 * visible to the thread when it has parked. Any kernel thread. */
GS_API void gs_thread_unpark(struct gs_thread *thread);

/* ---- Cancellation of threads ----
 * A canceled thread is not terminated: from then on its calls that would wait return -ECANCELED, so
 * that it can clean up and return. Locking a mutex is not interrupted, and gs_cond_wait returns
 * with the mutex locked. */

/* Cancel the thread. `thread` is valid until the thread is joined or, if it is detached, ends. */
GS_API void gs_thread_cancel(struct gs_thread *thread);

/* Cancel all threads but the caller that were spawned before this returns. A canceled thread may
 * still spawn others. */
GS_API void gs_threads_cancel_all(void);

/* Returns whether the calling thread was canceled. */
GS_API bool gs_thread_is_canceled(void);

/* Set whether cancellation interrupts the waits of the calling thread (true at first; cleanup code
 * may disable it temporarily). Returns the previous value. */
GS_API bool gs_thread_set_cancelable(bool is_cancelable);

/* ---- Cleanup functions of a thread ----
 *
 *     struct gs_cleanup cleanup;
 *     gs_cleanup_push(&cleanup, free, buffer);
 *     ...
 *     gs_cleanup_pop(true);
 */

/* A function that is called when the thread ends, by return or gs_thread_exit, in LIFO order. The
 * structure is in the caller's storage, usually in the frame that owns what must be cleaned up. */
struct gs_cleanup {
    struct gs_cleanup *next;
    void (*fn)(void *argument);
    void *argument;
};

/* Register the function, to be called with this argument. */
GS_API void gs_cleanup_push(struct gs_cleanup *cleanup, void (*fn)(void *), void *argument);

/* Remove the cleanup that was pushed last; run: call it. */
GS_API void gs_cleanup_pop(bool run);

/* ---- Thread-specific values ----
 *
 *     int key = gs_thread_key_new(free);
 *     err = gs_thread_set_value(key, strdup("first"));
 *     puts(gs_thread_value(key));
 */

#define GS_THREAD_KEYS 64

/* Create a key. destroy, if not NULL, is called at the end of each thread that has a value. A key
 * exists until the program ends. Any kernel thread. Returns the key, or -EAGAIN (there are
 * GS_THREAD_KEYS keys already). */
GS_API GS_MUST_CHECK int gs_thread_key_new(void (*destroy)(void *value));

/* Returns the value of the calling thread; NULL if it has not set one. */
GS_API void *gs_thread_value(int key);

/* Set the value of the calling thread. Returns 0, -EINVAL (no such key), or -ENOMEM (only at the
 * first call by a thread). */
GS_API GS_MUST_CHECK int gs_thread_set_value(int key, void *value);

GS_END_DECLS

#endif
