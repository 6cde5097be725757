#include "thread/channel.h"

#include <stdlib.h>
#include <string.h>

int gs_channel_new(size_t item_size, size_t capacity, struct gs_channel **ret_channel)
{
    size_t bytes;
    if (__builtin_mul_overflow(item_size, capacity, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct gs_channel), &bytes))
        return -ENOMEM;
    struct gs_channel *channel = calloc(1, bytes);
    if (!channel)
        return -ENOMEM;
    channel->item_size = item_size;
    channel->capacity = capacity;
    *ret_channel = channel;
    return 0;
}

void gs_channel_free(struct gs_channel *channel)
{
    free(channel);
}

static char *place(struct gs_channel *channel, size_t index)
{
    return channel->items + (channel->first + index) % channel->capacity * channel->item_size;
}

static void copy(const struct gs_channel *channel, void *to, const void *from)
{
    if (channel->item_size)
        memcpy(to, from, channel->item_size);
}

/* The first of the queue, claimed; the caller moves the item and makes it ready. */
static struct gs_waiter *claim(struct gs_wait_queue *queue, int result)
{
    struct gs_waiter *waiter = waiters_claim(worker_current(), queue, result);
    if (!waiter || waiter == &waiter->thread->waiter)
        return waiter;
    /* A select: its result stands with the case, and the call goes on to find out which one it was. */
    atomic_store_explicit(&waiter->thread->claim, CLAIM_WOKEN, memory_order_relaxed);
    waiter->value = result;
    waiter->thread->woken_by = waiter;
    return waiter;
}

static void ready(struct gs_waiter *waiter)
{
    thread_ready(worker_current(), waiter->thread);
}

bool gs_channel_try_send(struct gs_channel *channel, const void *item, int *ret_result)
{
    *ret_result = channel->is_closed ? -EPIPE : 0;
    if (channel->is_closed)
        return true;
    struct gs_waiter *receiver = claim(&channel->receivers, 0);
    if (receiver) {
        copy(channel, receiver->item, item);
        ready(receiver);
        return true;
    }
    if (channel->count == channel->capacity)
        return false;
    copy(channel, place(channel, channel->count), item);
    channel->count++;
    return true;
}

/* The place that came free goes to the sender that has waited longest. */
bool gs_channel_try_receive(struct gs_channel *channel, void *ret_item, int *ret_result)
{
    *ret_result = 0;
    bool has_item = channel->count;
    if (has_item) {
        copy(channel, ret_item, place(channel, 0));
        channel->first = (channel->first + 1) % channel->capacity;
        channel->count--;
    }
    struct gs_waiter *sender = claim(&channel->senders, 0);
    if (sender) {
        copy(channel, has_item ? place(channel, channel->count++) : ret_item, sender->item);
        ready(sender);
        return true;
    }
    if (!has_item && channel->is_closed)
        *ret_result = -EPIPE;
    return has_item || channel->is_closed;
}

int gs_channel_send(struct gs_channel *channel, const void *item, uint64_t deadline_ns)
{
    static const struct wait_kind sending = {.what = "send to channel",
                                             WAITS_IN(gs_channel, senders)};
    struct gs_thread *self = thread_current();
    int result;
    spin_lock(&channel->lock);
    if (gs_channel_try_send(channel, item, &result)) {
        spin_unlock(&channel->lock);
        return result;
    }
    self->waiter.item = (void *)item;
    return wait_in(self, channel, &sending, deadline_ns);
}

int gs_channel_receive(struct gs_channel *channel, void *ret_item, uint64_t deadline_ns)
{
    static const struct wait_kind receiving = {.what = "receive from channel",
                                               WAITS_IN(gs_channel, receivers)};
    struct gs_thread *self = thread_current();
    int result;
    spin_lock(&channel->lock);
    if (gs_channel_try_receive(channel, ret_item, &result)) {
        spin_unlock(&channel->lock);
        return result;
    }
    self->waiter.item = ret_item;
    return wait_in(self, channel, &receiving, deadline_ns);
}

void gs_channel_close(struct gs_channel *channel)
{
    struct gs_waiter *waiter;
    spin_lock(&channel->lock);
    channel->is_closed = true;
    while ((waiter = claim(&channel->receivers, -EPIPE)))
        ready(waiter);
    while ((waiter = claim(&channel->senders, -EPIPE)))
        ready(waiter);
    spin_unlock(&channel->lock);
}
