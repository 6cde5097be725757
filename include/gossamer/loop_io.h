/* Descriptor watchers. Part of gossamer/loop.h.
 *
 * Several watchers may watch the same descriptor. The descriptor of a watcher must not be closed
 * between gs_io_stop and gs_io_start, unless gs_loop_fd_closed was called for it or the watcher
 * is set again: a descriptor that is set with gs_io_set is verified with the kernel before the next
 * wait. So after a descriptor number was reused, neither is an old event delivered nor a new one
 * lost. */
#ifndef GOSSAMER_LOOP_IO_H
#define GOSSAMER_LOOP_IO_H

#include <gossamer/loop_timer.h>
#include <gossamer/loop_watcher.h>

GS_BEGIN_DECLS

enum {
    /* Readable, or the peer has shut down its sending side, or an error can be read. */
    GS_READ = 1,
    /* Writable, or an error can be read. A connection in progress has been established or has
     * failed: the socket option SO_ERROR says which. */
    GS_WRITE = 2,
    /* The peer has shut down its sending side, as EPOLLRDHUP, and may still be written to; or the
     * connection is closed. Reported together with GS_READ or GS_WRITE, and alone if it is
     * requested without GS_READ: what has arrived is not reported then. */
    GS_HANGUP = 4,
    /* Only reported: the kernel refuses to watch this descriptor. The watcher has been stopped, and
     * gs_io_error returns the reason. */
    GS_FAILED = 8,
    /* Only requested, together with others: edge-triggered. Readiness is reported once each time it
     * occurs. Such a watcher must be the only one of its descriptor. Setting it reports readiness
     * again that was already reported; stopping and starting it does not. */
    GS_EDGE = 16,
    /* Only reported, together with GS_READ, and only if GS_EDGE is requested: urgent data has come
     * (MSG_OOB). A call that reads stops in front of it. */
    GS_URGENT = 32,
};

struct gs_io;
typedef void gs_io_fn(struct gs_io *io, unsigned events);
struct gs_io {
    struct gs_watcher watcher;
    gs_io_fn *callback;
    struct gs_io *next; /* the next watcher of this descriptor */
    int fd;
    uint8_t wanted;    /* GS_READ, GS_WRITE, GS_HANGUP, GS_EDGE */
    bool needs_verify; /* set since it was last started */
    int16_t error;
};

GS_API void gs_io_init(struct gs_io *io, struct gs_loop *loop, gs_io_fn *callback);

/* Only while inactive. wanted: GS_READ, GS_WRITE, GS_HANGUP, and optionally GS_EDGE. The caller
 * keeps ownership of fd. */
GS_API void gs_io_set(struct gs_io *io, int fd, unsigned wanted);

/* Change the events that an active or inactive watcher waits for; 0: none for now, and nothing is
 * reported then, not even a hang-up. Pending events that are no longer wanted are dropped. */
GS_API void gs_io_set_events(struct gs_io *io, unsigned wanted);

/* If the kernel refuses the descriptor, for instance because it is not open, the callback gets
 * GS_FAILED. A descriptor that cannot be polled, such as a regular file, is always ready. Returns
 * 0, -ENOMEM, -EBADF (no descriptor was set, or a number that is new to the loop is not open), or
 * -EBUSY (the descriptor has an edge-triggered watcher, or this one is edge-triggered and there is
 * another). */
GS_API GS_MUST_CHECK int gs_io_start(struct gs_io *io);

GS_API void gs_io_stop(struct gs_io *io);

/* Returns the reason for GS_FAILED: -errno. */
GS_API int gs_io_error(const struct gs_io *io);

/* Have the number of an active watcher verified before the next wait, as if it was stopped, set and
 * started. */
GS_API void gs_io_verify(struct gs_io *io);

/* Returns how many files epoll has accepted under the number of this watcher, modulo 256. A change
 * means that interest was registered for another file than before. For programs whose users close
 * descriptors while they are watched. 0 on other pollers, which cannot tell files apart. */
GS_API unsigned gs_io_files(const struct gs_io *io);

/* fd is about to be closed, or was closed, and watchers may still refer to it: they are stopped,
 * operations on it are cancelled, and the loop discards what it knows about the registration. Call
 * it before the close rather than after: a file that stays open through a duplicate can then be
 * removed from the kernel's set. Makes no system call, except in programs that have such
 * duplicates. */
GS_API void gs_loop_fd_closed(struct gs_loop *loop, int fd);

/* ---- One-shot: a wait for a descriptor or a deadline, whichever comes first ----
 * events: as for a descriptor watcher; 0: the deadline has passed. Both are stopped before the
 * call, in which the storage may be freed.
 *
 *     gs_oneshot_init(&oneshot, loop, on_ready_or_late);
 *     err = gs_oneshot_start(&oneshot, fd, GS_READ, gs_loop_now(loop) + 5 * GS_SECOND);
 */

struct gs_oneshot;
typedef void gs_oneshot_fn(struct gs_oneshot *oneshot, unsigned events);
struct gs_oneshot {
    struct gs_io io;
    struct gs_timer timer;
    gs_oneshot_fn *callback;
};

GS_API void gs_oneshot_init(struct gs_oneshot *oneshot, struct gs_loop *loop,
                            gs_oneshot_fn *callback);

/* fd: -1: wait for the deadline only. deadline_ns: GS_NEVER: wait for the descriptor only. Only
 * while inactive. Returns 0, -ENOMEM, or -EBADF or -EBUSY, as gs_io_start does. */
GS_API GS_MUST_CHECK int gs_oneshot_start(struct gs_oneshot *oneshot, int fd, unsigned wanted,
                                          uint64_t deadline_ns);

GS_API void gs_oneshot_stop(struct gs_oneshot *oneshot);

GS_END_DECLS

#endif
