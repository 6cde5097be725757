/* Channels, shared by channel.c and select.c. Invariants, under the lock:
 *
 *   1. count <= capacity.
 *   2. Receivers wait only while count is 0; senders only while count is capacity. Waiters whose
 *      wait was abandoned but that are still in the queue do not count.
 *   3. A waiter's `item` is the source (sender) or the destination (receiver) of its item, and is
 *      valid until the waiter is claimed. */
#ifndef GS_THREAD_CHANNEL_H
#define GS_THREAD_CHANNEL_H

#include "thread/schedule/wait.h"

struct gs_channel {
    struct gs_spin lock;
    bool is_closed;
    size_t item_size, capacity, count, first;
    struct gs_wait_queue senders, receivers;
#ifdef GS_CHECKED
    struct gs_channel_state state;
#endif
    char items[];
};

/* Try without waiting. The caller holds the lock. Returns true if done, with *ret_result 0 or
 * -EPIPE. The thread that can continue because of this, at most one, is added to `claimed`, and
 * made ready when the lock has been released. */
bool gs_channel_try_send(struct gs_channel *channel, const void *item, int *ret_result,
                         struct claimed *claimed);
bool gs_channel_try_receive(struct gs_channel *channel, void *ret_item, int *ret_result,
                            struct claimed *claimed);

#endif
