/* Waiting for several descriptors at once, shared by poll.c and select.c. */
#ifndef GS_THREAD_POLL_H
#define GS_THREAD_POLL_H

#include "thread/schedule/thread.h"

#include <gossamer/io.h>

/* A notification of an event may arrive while the other descriptors are still being polled: it is
 * recorded, and wakes the thread if it waits. The notifying kernel thread holds the lock of a
 * descriptor at which a waiter is queued, so this structure stays valid meanwhile. */
struct notification {
    struct gs_spin lock;
    bool is_pending, is_waited_for;
    struct gs_thread *thread;
};

/* Notify. The caller holds the lock of the object under which the waiter of the notification was
 * queued. If this returns true, the caller makes the thread ready. */
bool gs_notification_claim(struct notification *notification);

/* Wait for a notification. unlock(argument) is called when the stack has been left: it unlocks the
 * notification, and what else the caller has locked. Returns 0 or -errno. */
int gs_notification_wait(struct notification *notification, const struct wait *wait,
                         void (*unlock)(void *), void *argument);

/* Of each descriptor; all zero at first. */
struct poll_waiter {
    struct gs_waiter directions[2];
    unsigned closes; /* of struct opened */
};

struct poll_waiters {
    struct gs_poll *polls;
    struct poll_waiter *each;
    unsigned count;
    struct notification notification;
};

/* Poll a descriptor. One that gs_close has closed since is ready for all. Returns 1, 0 or
 * -errno. */
int gs_poll_now(struct gs_poll *poll, unsigned closes);

/* Watch all descriptors that are not negative, and queue waiters that notify: at once, if one was
 * closed. Returns 0 or -errno; then none is queued. */
int gs_poll_enqueue(struct poll_waiters *waiters);
void gs_poll_dequeue(struct poll_waiters *waiters);

#endif
