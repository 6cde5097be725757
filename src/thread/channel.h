/* Channels, as channel.c and select.c see them. Invariants, under the lock:
 *   1. count <= capacity.
 *   2. Receivers wait only while count is 0; senders only while count is capacity. Those that have given up but have not yet
 *      left the queue do not count.
 *   3. A waiter's item is where its item comes from (sender) or goes to (receiver), on a stack that stays until it was claimed. */
#ifndef GS_THREAD_CHANNEL_H
#define GS_THREAD_CHANNEL_H

#include "thread/wait.h"

struct gs_channel {
    struct gs_spin lock;
    bool is_closed;
    size_t item_size, capacity, count, first;
    struct gs_wait_queue senders, receivers;
    char items[];
};

/* Under the lock: true if done, with *ret_result 0 or -EPIPE. */
bool gs_channel_try_send(struct gs_channel *channel, const void *item, int *ret_result);
bool gs_channel_try_receive(struct gs_channel *channel, void *ret_item, int *ret_result);

#endif
