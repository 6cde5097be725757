/* Resumables: activities without a stack, which the workers resume beside the threads.
 *
 *     static void step(struct gs_resumable *resumable)       called whenever it is resumed
 *     {
 *         struct job *job = gs_container_of(resumable, struct job, resumable);
 *         if (do_a_part(job) == -EAGAIN)
 *             err = gs_resumable_watch(resumable, job->fd, GS_READ);
 *         else
 *             gs_resumable_end(resumable);
 *     }
 *     gs_resumable_init(&job->resumable, step);
 *     err = gs_resumable_start(&job->resumable, 0);
 *
 * A resumable keeps its state in memory of the caller, usually in the structure that contains it.
 * The interface is meant for compilers and generators of state machines. Resumables share the run
 * queues with threads, and count as threads for the end of the run and for deadlocks. A resumable
 * stays on the worker on which it was started. Its function is called on the worker's stack; it
 * must not make a call that waits, and returns when the resumable has to wait. After a wake-up it
 * is called again, even if the wake-up came before it returned: at most one is pending.
 *
 * Threads: functions may be called by user threads and by resumables, unless their description says
 * otherwise; while no user threads run, only gs_resumable_init.
 */
#ifndef GOSSAMER_RESUMABLE_H
#define GOSSAMER_RESUMABLE_H

#include <gossamer/api.h>
#include <gossamer/loop_io.h>
#include <gossamer/sync.h>
#include <gossamer/thread.h>
#include <sys/types.h>

GS_BEGIN_DECLS

struct gs_resumable;

typedef void gs_resume_fn(struct gs_resumable *resumable);

/* All members are private to the library. */
struct gs_resumable {
    struct gs_waiter waiter; /* while it waits for a descriptor */
    void *next;              /* while it is ready */
    void *run;
    uint8_t priority;
    GS_ATOMIC_MEMBER(uint8_t) state;
    uint16_t worker; /* its index */
    int fd;
    gs_resume_fn *resume;
    bool is_writing : 1; /* it waits for GS_WRITE, not for GS_READ */
    bool is_external : 1;
    bool is_again : 1; /* it is or will be queued, although its state is that of running */
};

/* ---- The life of a resumable ---- */

GS_API void gs_resumable_init(struct gs_resumable *resumable, gs_resume_fn *resume);

/* Make it ready for the first time. worker: the one that runs it, numbered from 1, at most 65,536;
 * 0: the calling one. From now on the run does not end before the resumable. Returns 0 or -EINVAL
 * (no such worker). */
GS_API GS_MUST_CHECK int gs_resumable_start(struct gs_resumable *resumable, unsigned worker);

/* End it. Called by its own function, which may then free it, and must return. It must not be woken
 * any more, nor watch a descriptor. */
GS_API void gs_resumable_end(struct gs_resumable *resumable);

/* ---- Waiting ----
 * Before its function returns, a resumable arranges what will wake it.
 */

/* Resume it when its function has returned. What the caller has written before is visible to the
 * function then. Any kernel thread. */
GS_API void gs_resumable_wake(struct gs_resumable *resumable);

/* Like gs_resumable_wake, but cheaper: resume it when its function has returned, after everything
 * that is ready by then. Called by its own function, which must not wait for a descriptor at that
 * time. */
GS_API void gs_resumable_again(struct gs_resumable *resumable);

/* Wake it when fd is ready for GS_READ or GS_WRITE. It can watch one descriptor at a time. Called
 * by its own function. Returns 0 (it will be woken, perhaps too early), 1 (try the system call at
 * once: it will not be woken), -EBADF (fd is negative), -ENOMEM, or the error with which the kernel
 * refuses to watch fd. */
GS_API GS_MUST_CHECK int gs_resumable_watch(struct gs_resumable *resumable, int fd,
                                            unsigned direction);

/* Stop watching, if no event has done so. Called by its own function, each time that it is resumed
 * after gs_resumable_watch has returned 0. */
GS_API void gs_resumable_unwatch(struct gs_resumable *resumable);

/* Call this before a non-blocking system call. A later gs_resumable_watch then considers only
 * events from now on; otherwise a stale event would cause a useless system call.
 * Returns whether the system call is worth trying. It is not if an earlier one has emptied a TCP
 * socket and no event has reported more since. */
GS_API GS_MUST_CHECK bool gs_resumable_may_call(int fd, unsigned direction);

/* Call this after that system call. n: its result, or -errno; size: how much it could have read or
 * written. */
GS_API void gs_resumable_called(int fd, unsigned direction, ssize_t n, size_t size);

/* Set whether the next wait of the resumable is for an external event, such as a timer, so that it
 * does not count as a deadlock. Waits of gs_resumable_watch never do. Called by its own
 * function. */
GS_API void gs_resumable_set_external(struct gs_resumable *resumable, bool is_external);

/* Returns the event loop of the calling worker, for timers and other watchers. Their callbacks run
 * on that worker, and must not wait. */
GS_API struct gs_loop *gs_threads_loop(void);

/* Returns the number of the calling worker, from 1; 0 in kernel threads that are no workers. Any
 * kernel thread. */
GS_API unsigned gs_threads_worker(void);

/* Returns how many workers the program has asked for: those on which resumables can be started. */
GS_API unsigned gs_threads_workers(void);

GS_END_DECLS

#endif
