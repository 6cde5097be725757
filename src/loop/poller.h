/* What a poller does for the loop: one small file each, named in the table of loop.c.
 *
 * Every poller watches loop->wake_fd from init on, keeps that to itself, and ends its wait when
 * something is written there.
 */
#ifndef GS_LOOP_POLLER_H
#define GS_LOOP_POLLER_H

#include <stdint.h>

struct gs_loop;

struct poller {
    const char *name;

    /* There is a slot for descriptor 0 by now. Returns 0, -ENOMEM, -EMFILE or -ENFILE. */
    int (*init)(struct gs_loop *loop);
    void (*done)(struct gs_loop *loop);

    /* Have the kernel watch fd for `wanted` (0: no more) instead of what its slot says is
     * registered; if the slot says SLOT_VERIFY, whatever the number means by now. Gives the slot a
     * new generation when the registration is a new one. Returns 0, -EPERM (cannot be watched:
     * always ready), or the error for GS_FAILED. */
    int (*set)(struct gs_loop *loop, int fd, unsigned wanted);

    /* Wait timeout_ns at the most (UINT64_MAX: no limit). Returns how much there is to collect, or
     * -errno. */
    int (*wait)(struct gs_loop *loop, uint64_t timeout_ns);

    /* Hand what the last wait found to gs_loop_io_ready and gs_loop_io_stale. */
    void (*collect)(struct gs_loop *loop, int count);

    /* Begin with an empty set of the kernel's: after fork, or to get rid of what can't be taken
     * out. On failure the old one stays. Returns 0, -ENOMEM, -EMFILE or -ENFILE. */
    int (*reopen)(struct gs_loop *loop);
};

extern const struct poller gs_loop_poller_epoll;

#endif
