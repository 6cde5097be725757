/* Look-ups of names in progress. Identical ones of a user of the pool are joined: getaddrinfo is
 * called once, or a resolver asked once, and each waiter gets the result.
 *
 *     gs_look_up_new      a record of its own
 *     gs_look_up_start    joins the record of the same look-up, if there is one; else makes its own
 *                         one known, and submits it to the pool or to a resolver
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

/* What makes look-ups in place of the pool. */
struct resolver {
    /* Called with the lock of all look-ups held: keeps the record until gs_look_up_complete or
     * gs_look_up_discard, and calls neither from here. Returns 0 or -errno. */
    int (*ask)(struct resolver *resolver, struct look_up *look_up);
};

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

/* Whether a name server is to be asked, because nothing on this machine has the name. */
bool gs_look_up_is_foreign(const struct look_up *look_up);

/* resolver: NULL: the pool makes the look-up. Returns 0, -EAGAIN or -ENOMEM: `complete` is not
 * called. */
int gs_look_up_start(struct look_up_waiter *waiter, struct pool_user *user,
                     struct resolver *resolver);

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

/* ---- For a resolver ---- */

struct resolution *gs_look_up_resolution(struct look_up *look_up);

/* Whether anybody waits for it still. */
bool gs_look_up_is_wanted(struct look_up *look_up);

/* The result is set: complete the waiters. */
void gs_look_up_complete(struct look_up *look_up);

/* In the child of a fork, where nobody waits for it: free the record. */
void gs_look_up_discard(struct look_up *look_up);

#endif
