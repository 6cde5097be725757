/* Look-ups of names in progress. Identical ones of a user of the pool are joined: getaddrinfo is
 * called once, and each waiter gets the result.
 *
 *     gs_look_up_new      a record of its own
 *     gs_look_up_start    joins the record of the same look-up, if there is one; else makes its own
 *                         one known, and submits it to the pool
 *     complete            called by a kernel thread, unless
 *     gs_look_up_leave    has stopped waiting before
 *     gs_look_up_release  the last one frees the record; if the look-up is in progress, it is
 *                         abandoned, and forgotten at once: the next waiter begins another one */
#ifndef GS_BASE_LOOK_UP_H
#define GS_BASE_LOOK_UP_H

#include "base/resolution.h"

#include <gossamer/list.h>
#include <stdbool.h>

struct look_up;
struct pool_user;

struct look_up_waiter {
    struct look_up *look_up; /* its reference is the waiter's, and start may replace it */
    /* The waiter may be freed from this call on. */
    void (*complete)(struct look_up_waiter *waiter);

    /* Guarded by the lock of all look-ups. */
    struct gs_list link;
    bool is_waiting;
};

/* Returns a record, with a reference for the caller, or NULL if there is no memory. */
struct look_up *gs_look_up_new(const char *node, const char *service, const struct addrinfo *hints);

/* Choose the kernel threads for the look-up, or make it here if it needs none. Never waits; needs
 * some 6 KiB of stack. */
void gs_look_up_classify(struct look_up *look_up);

/* Whether the look-up was made there. */
bool gs_look_up_is_done(const struct look_up *look_up);

/* Returns 0, or -EAGAIN: `complete` is not called. */
int gs_look_up_start(struct look_up_waiter *waiter, struct pool_user *user);

/* Returns whether `complete` was not called, and will not be. */
bool gs_look_up_leave(struct look_up_waiter *waiter);

/* ---- When it is done, or `complete` was called ---- */

/* Returns 0 or -errno, as gs_resolution_result. */
int gs_look_up_result(const struct look_up *look_up);

/* What was found. It belongs to the record. */
const struct addrinfo *gs_look_up_addresses(const struct look_up *look_up);

/* Get what was found, or a copy if others wait for it too, for freeaddrinfo. Returns 0 or
 * -ENOMEM. */
int gs_look_up_take(struct look_up *look_up, struct addrinfo **ret_addresses);

void gs_look_up_release(struct look_up *look_up);

#endif
