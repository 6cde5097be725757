/* What a poller does for the loop: one small file each, named in the table of poller.c.
 *
 * Every poller watches loop->wake_fd from init on, keeps that to itself, and ends its wait when
 * something is written there.
 */
#ifndef GS_LOOP_POLLER_H
#define GS_LOOP_POLLER_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stdint.h>

struct gs_loop;
struct gs_op;

/* One of the many that an operation may have. */
struct op_answer {
    int64_t result;
    void *bytes; /* borrowed until it is given back */
    int buffer;  /* where they are; -1: there are none */
};

struct poller {
    const char *name;

    /* It must take a descriptor out as soon as nobody wants it, as it keeps the file open. */
    bool is_told_of_stops;
    /* It must take a descriptor out when that is closed. */
    bool is_told_of_closes;

    /* There is a slot for descriptor 0 by now. Returns 0, -ENOMEM, -EMFILE, -ENFILE, or -ENOSYS
     * and -EPERM where the kernel has no such thing for us. */
    int (*init)(struct gs_loop *loop);
    void (*done)(struct gs_loop *loop);

    /* There are to be so many slots. NULL: there is nothing to do. Returns 0 or -ENOMEM. */
    int (*grow)(struct gs_loop *loop, unsigned count);

    /* Have the kernel watch fd for `wanted` (0: no more) instead of what its slot says is
     * registered; if the slot says SLOT_VERIFY, whatever the number means by now. Gives the slot a
     * new generation when the registration is a new one. Returns 0, -EPERM (cannot be watched:
     * always ready), or the error for GS_FAILED; both may also come later, by
     * gs_loop_io_failed. */
    int (*set)(struct gs_loop *loop, int fd, unsigned wanted);

    /* Have the kernel watch these descriptors, ADDER_BATCH at the most, of which each is either not
     * registered or has SLOT_VERIFY and is wanted as it is registered; clear SLOT_CHANGED of those
     * for which that is done. The others are set one by one. count 0: only be ready for it. NULL:
     * that is no cheaper. */
    void (*add_many)(struct gs_loop *loop, const int *fds, unsigned count);

    /* Wait timeout_ns at the most (UINT64_MAX: no limit). Returns how much there is to collect, or
     * -errno. */
    int (*wait)(struct gs_loop *loop, uint64_t timeout_ns);

    /* Hand what the last wait found to gs_loop_io_ready, gs_loop_io_failed and gs_loop_io_stale,
     * and to gs_loop_op_answered and gs_loop_op_ended. */
    void (*collect)(struct gs_loop *loop, int count);

    /* Begin with an empty set of the kernel's: after fork, or to get rid of what can't be taken
     * out. On failure the old one stays. Returns 0, -ENOMEM, -EMFILE or -ENFILE. */
    int (*reopen)(struct gs_loop *loop);

    /* A descriptor that is readable when there is something to collect, for a loop whose wait is
     * another's; it may be opened by the call, and is another one after `reopen`. NULL: there is
     * none. Returns it, or -ENOMEM, -EMFILE or -ENFILE. */
    int (*descriptor)(struct gs_loop *loop);

    /* Before another's wait: hand over to the kernel what a wait would. Returns whether there may
     * be something to collect already. NULL: there is nothing to do. */
    bool (*hand_over)(struct gs_loop *loop);

    /* Completions; all NULL in a poller that only knows readiness. */

    /* Hand the operation to the kernel. Returns 0 or -ENOMEM. */
    int (*start_op)(struct gs_loop *loop, struct gs_op *op);
    /* Have it answered soon. Returns whether the kernel will not know of it: then there is no
     * answer. */
    bool (*cancel_op)(struct gs_loop *loop, struct gs_op *op);
    /* The next answer of an operation that has many, or false. */
    bool (*next_answer)(struct gs_loop *loop, struct gs_op *op, struct op_answer *ret_answer);
    /* Its bytes are no longer used. */
    void (*give_back)(struct gs_loop *loop, const struct op_answer *answer);
};

extern const struct poller gs_loop_poller_epoll;
extern const struct poller gs_loop_poller_io_uring;
extern const struct poller gs_loop_poller_poll;
extern const struct poller gs_loop_poller_select;

/* ---- poller.c ---- */

/* By name; NULL: the one that GS_POLLER in the environment names, or else epoll. Returns NULL if
 * there is none. */
const struct poller *gs_loop_find_poller(const char *name);

/* Init the loop's poller, or epoll in its stead where the kernel has no such thing. */
GS_MUST_CHECK int gs_loop_init_poller(struct gs_loop *loop);

/* For pollers by level: read what has ended the wait. */
void gs_loop_take_wake(struct gs_loop *loop);

/* Returns -EPERM for regular files and folders, -EBADF, or 0. */
GS_MUST_CHECK int gs_loop_refuse_file(int fd);

#endif
