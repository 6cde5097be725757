/* Watchers of descriptors. Part of gossamer/loop.h.
 *
 * Any number of watchers for the same descriptor. The contract of a descriptor's lifetime: between
 * gs_io_stop and gs_io_start of the same watcher the descriptor was not closed, or
 * gs_loop_fd_closed said so; a descriptor that is set with gs_io_set is always verified with the
 * kernel when interest is settled next. So a reused number neither delivers an old event nor loses
 * a new one. */
#ifndef GOSSAMER_LOOP_IO_H
#define GOSSAMER_LOOP_IO_H

#include <gossamer/loop_timer.h>
#include <gossamer/loop_watcher.h>

enum {
    GS_READ = 1,   /* readable, or the peer has shut down, or an error waits to be read */
    GS_WRITE = 2,  /* writable, or an error waits to be read */
    GS_HANGUP = 4, /* reported only, with the others: the peer has shut down its sending side, or
                    * the connection is gone */
    GS_FAILED = 8, /* reported only: the kernel refuses to watch this descriptor; the watcher has
                    * been stopped and gs_io_error tells why */
    GS_EDGE = 16,  /* asked for with the others: report each readiness once, until it comes anew.
                    * Such a watcher must be its descriptor's only one. To stop and start it does
                    * not make readiness new that was reported to its callback; to set it does. */
};

struct gs_io;
typedef void gs_io_fn(struct gs_io *io, unsigned events);
struct gs_io {
    struct gs_watcher watcher;
    gs_io_fn *callback;
    struct gs_io *next; /* of the watchers of this descriptor */
    int fd;
    uint8_t wanted; /* GS_READ, GS_WRITE, GS_EDGE */
    bool is_anew;   /* set since it was last started */
    int16_t error;
};

GS_API void gs_io_init(struct gs_io *io, struct gs_loop *loop, gs_io_fn *callback);

/* Only while inactive. wanted: GS_READ, GS_WRITE, both, or with GS_EDGE. fd stays the caller's. */
GS_API void gs_io_set(struct gs_io *io, int fd, unsigned wanted);

/* Change what is wanted of the same descriptor, active or not; 0 is allowed: nothing for now. What
 * was pending and is no longer wanted is dropped. */
GS_API void gs_io_want(struct gs_io *io, unsigned wanted);

/* Returns 0, -EBADF (no descriptor set, or a number far from any open one), -ENOMEM, or -EBUSY
 * (another watcher has the descriptor by edges, or this one wants it so and there is another). What
 * the kernel itself refuses comes as GS_FAILED. A descriptor that can't be waited for, such as a
 * regular file, is always ready. */
GS_API GS_MUST_CHECK int gs_io_start(struct gs_io *io);
GS_API void gs_io_stop(struct gs_io *io);

/* Why GS_FAILED: -errno. */
GS_API int gs_io_error(const struct gs_io *io);

/* fd is about to be closed, or was, while watchers may name it: those are stopped (operations under
 * way are cancelled), and the loop forgets what the kernel knew of it. Better before the close than
 * after: a descriptor that lives on as a duplicate can then be taken from the kernel's set. Costs
 * no system call, except in a program that has such duplicates. */
GS_API void gs_loop_fd_closed(struct gs_loop *loop, int fd);

/* ---- Once: a descriptor or a deadline, whichever comes first ----
 * events: as of a descriptor's watcher; 0: the deadline has passed. Both are stopped before the
 * call, in which the storage may be freed. */

struct gs_loop_once;
typedef void gs_loop_once_fn(struct gs_loop_once *once, unsigned events);
struct gs_loop_once {
    struct gs_io io;
    struct gs_timer timer;
    gs_loop_once_fn *callback;
};

GS_API void gs_loop_once_init(struct gs_loop_once *once, struct gs_loop *loop,
                              gs_loop_once_fn *callback);

/* fd: -1 for only the deadline; deadline_ns: GS_NEVER for only the descriptor. Only while not under
 * way. Returns 0, or what gs_io_start and gs_timer_start return. */
GS_API GS_MUST_CHECK int gs_loop_once_start(struct gs_loop_once *once, int fd, unsigned wanted,
                                            uint64_t deadline_ns);
GS_API void gs_loop_once_stop(struct gs_loop_once *once);

#endif
