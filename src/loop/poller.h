/* The interface of a poller. Each poller is a file, and an entry of the table in poller.c.
 *
 * From init on, every poller watches loop->wake_fd, which it does not report, and ends its wait
 * when wake_fd is written to.
 */
#ifndef GS_LOOP_POLLER_H
#define GS_LOOP_POLLER_H

#include "base/hidden.h"

#include <gossamer/api.h>
#include <stdbool.h>
#include <stdint.h>

struct gs_loop;
struct gs_op;

/* A result of a multishot operation. */
struct op_result {
    int64_t result;
    void *bytes; /* valid until return_buffer */
    int buffer;  /* the buffer that holds them; -1: none */
};

struct poller {
    const char *name;

    /* Registrations keep the file open, so they must be removed when the last watcher stops. */
    bool needs_stop;
    /* Registrations must be removed when the descriptor is closed. */
    bool needs_close;

    /* The slot of descriptor 0 exists already. Returns 0, -ENOMEM, -EMFILE, -ENFILE, or -ENOSYS
     * or -EPERM if the kernel does not support or permit it. */
    int (*init)(struct gs_loop *loop);
    void (*done)(struct gs_loop *loop);

    /* Called before slot_count grows to `count`. Returns 0 or -ENOMEM. NULL: not needed. */
    int (*grow)(struct gs_loop *loop, unsigned count);

    /* Watch fd for `wanted` (0: stop watching it) instead of what its slot has as registered.
     * With SLOT_VERIFY, watch the file that the number refers to now. A new registration gets a
     * new generation. Returns 0, -EPERM (it cannot be watched: always ready), or the error for
     * GS_FAILED; both errors may also be reported later, by gs_loop_io_failed. */
    int (*set)(struct gs_loop *loop, int fd, unsigned wanted);

    /* Watch these descriptors, EPOLL_BATCH_SIZE at most. Each one is not registered, or has
     * SLOT_VERIFY and is wanted as it is registered. Clears SLOT_CHANGED of those that succeed; the
     * others are set one by one. count 0: only prepare. NULL: it would not be cheaper. */
    void (*add_many)(struct gs_loop *loop, const int *fds, unsigned count);

    /* Wait timeout_ns at most (UINT64_MAX: no limit). Returns the number of events to collect, or
     * -errno. */
    int (*wait)(struct gs_loop *loop, uint64_t timeout_ns);

    /* Report the events of the last wait by gs_loop_io_ready, gs_loop_io_failed,
     * gs_loop_io_stale, gs_loop_op_result_ready and gs_loop_op_finished. */
    void (*collect)(struct gs_loop *loop, int count);

    /* Start again without registrations: after a fork, or to drop registrations that cannot be
     * removed. On failure nothing changes. Returns 0, -ENOMEM, -EMFILE or -ENFILE. */
    int (*reopen)(struct gs_loop *loop);

    /* For an embedded loop: returns a descriptor that is readable when there are events to
     * collect, or -ENOMEM, -EMFILE or -ENFILE. The first call may open it, and `reopen` replaces
     * its file. NULL: the poller has none. */
    int (*descriptor)(struct gs_loop *loop);

    /* For an embedded loop, before the outer loop's wait: submit what a wait would submit. Returns
     * whether there may already be events to collect. NULL: not needed. */
    bool (*submit)(struct gs_loop *loop);

    /* Completions; all NULL in a poller that supports readiness only. */

    /* Start the operation. Returns 0 or -ENOMEM. */
    int (*start_op)(struct gs_loop *loop, struct gs_op *op);
    /* Make it finish soon. Returns 0; 1: it was not submitted, and there will be no completion; or
     * -ENOMEM: there is no room now, and gs_loop_retry_cancels is called before the next wait. */
    int (*cancel_op)(struct gs_loop *loop, struct gs_op *op);
    /* Get the next result of a multishot operation. Returns false if there is none. */
    bool (*next_result)(struct gs_loop *loop, struct gs_op *op, struct op_result *ret_result);
    /* The bytes of the result are no longer used. */
    void (*return_buffer)(struct gs_loop *loop, const struct op_result *result);
};

extern GS_HIDDEN const struct poller gs_loop_poller_epoll;
extern GS_HIDDEN const struct poller gs_loop_poller_io_uring;
extern GS_HIDDEN const struct poller gs_loop_poller_poll;
extern GS_HIDDEN const struct poller gs_loop_poller_select;

/* ---- poller.c ---- */

/* NULL: the poller that the environment variable GS_POLLER names, or epoll. Returns NULL if no
 * poller has that name. */
const struct poller *gs_loop_find_poller(const char *name);

/* Initialize the loop's poller, or epoll if the kernel does not support it. */
GS_MUST_CHECK int gs_loop_init_poller(struct gs_loop *loop);

/* For level-triggered pollers: read wake_fd after it has ended a wait. */
void gs_loop_drain_wake_fd(struct gs_loop *loop);

/* Returns -EPERM for regular files and directories, -EBADF, or 0. */
GS_MUST_CHECK int gs_loop_check_pollable(int fd);

#endif
