#include "thread/sync/channel.h"

#include "thread/schedule/off_stack.h"

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
    IF_CHECKED(gs_checked_new_channel(channel, bytes));
    *ret_channel = channel;
    return 0;
}

void gs_channel_free(struct gs_channel *channel)
{
#ifdef GS_CHECKED
    channel = gs_quarantine_channel(THIS_CALL, channel);
#endif
    free(channel);
}

static char *slot(struct gs_channel *channel, size_t index)
{
    return channel->items + (channel->first + index) % channel->capacity * channel->item_size;
}

void gs_channel_drain(struct gs_channel *channel, void (*fn)(void *item, void *argument),
                      void *argument)
{
    for (; channel->count; channel->count--) {
        char *item = slot(channel, 0);
        channel->first = (channel->first + 1) % channel->capacity;
        fn(item, argument);
    }
}

static void copy(const struct gs_channel *channel, void *to, const void *from)
{
    if (channel->item_size)
        memcpy(to, from, channel->item_size);
}

/* Claim the first waiter of the queue; the caller moves the item, and makes the thread ready. */
static struct gs_waiter *claim(struct gs_wait_queue *queue, int result, struct claimed *claimed)
{
    struct gs_waiter *waiter = waiters_pop_claimed(worker_current(), queue, result);
    if (!waiter)
        return NULL;
    claimed_add(claimed, waiter);
    if (waiter == &waiter->thread->waiter)
        return waiter;
    /* A select: its result is stored in the case; the call is woken to find out which case it
     * was. */
    atomic_store_explicit(&waiter->thread->claim, CLAIM_WOKEN, memory_order_relaxed);
    gs_container_of(waiter, struct gs_select, waiter)->result = result;
    waiter->thread->woken_by = waiter;
    return waiter;
}

bool gs_channel_try_send(struct gs_channel *channel, const void *item, int *ret_result,
                         struct claimed *claimed)
{
    *ret_result = channel->is_closed ? -EPIPE : 0;
    if (channel->is_closed)
        return true;
    struct gs_waiter *receiver = claim(&channel->receivers, 0, claimed);
    if (receiver) {
        copy(channel, receiver->item, item);
        return true;
    }
    if (channel->count == channel->capacity)
        return false;
    copy(channel, slot(channel, channel->count), item);
    channel->count++;
    return true;
}

/* The slot that was freed goes to the sender that has waited longest. */
bool gs_channel_try_receive(struct gs_channel *channel, void *ret_item, int *ret_result,
                            struct claimed *claimed)
{
    *ret_result = 0;
    bool has_item = channel->count;
    if (has_item) {
        copy(channel, ret_item, slot(channel, 0));
        channel->first = (channel->first + 1) % channel->capacity;
        channel->count--;
    }
    struct gs_waiter *sender = claim(&channel->senders, 0, claimed);
    if (sender) {
        copy(channel, has_item ? slot(channel, channel->count++) : ret_item, sender->item);
        return true;
    }
    if (!has_item && channel->is_closed)
        *ret_result = -EPIPE;
    return has_item || channel->is_closed;
}

static const struct wait_kind sending = {.name = "send to channel", WAITS_IN(gs_channel, senders)},
                              receiving = {.name = "receive from channel",
                                           WAITS_IN(gs_channel, receivers)};

/* Wait with a copy of the item. The lock is held. */
static int wait_off_stack(struct gs_thread *self, struct gs_channel *channel,
                          const struct wait_kind *kind, uint64_t deadline_ns)
{
    struct off_stack off = {.thread = self};
    void *item = self->waiter.item;
    self->waiter.item = kind == &sending ? off_stack_in(&off, item, channel->item_size)
                                         : off_stack_out(&off, item, channel->item_size);
    int err = off.err;
    if (err)
        spin_unlock(&channel->lock);
    else
        err = gs_thread_wait_for_object(self, channel, kind, deadline_ns);
    off_stack_end(&off);
    return err;
}

/* Send or receive an item. */
ALWAYS_INLINE int transfer(struct gs_channel *channel, void *item, const struct wait_kind *kind,
                           uint64_t deadline_ns)
{
    struct gs_thread *self = thread_current();
    struct claimed claimed = {.first = NULL};
    int result;
    spin_lock(&channel->lock);
    bool is_done = kind == &sending ? gs_channel_try_send(channel, item, &result, &claimed)
                                    : gs_channel_try_receive(channel, item, &result, &claimed);
    if (is_done) {
        spin_unlock(&channel->lock);
        claimed_make_ready(self->worker, &claimed);
        return result;
    }
    self->waiter.item = item;
    if (UNLIKELY(self->shares_stack))
        return wait_off_stack(self, channel, kind, deadline_ns);
    return wait_for_object(self->worker, channel, kind, deadline_ns);
}

int gs_channel_send(struct gs_channel *channel, const void *item, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    IF_CHECKED(gs_checked_channel(THIS_CALL, channel));
    return transfer(channel, (void *)item, &sending, deadline_ns);
}

int gs_channel_receive(struct gs_channel *channel, void *ret_item, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    IF_CHECKED(gs_checked_channel(THIS_CALL, channel));
    return transfer(channel, ret_item, &receiving, deadline_ns);
}

void gs_channel_close(struct gs_channel *channel)
{
    CHECKED_WORKER();
    IF_CHECKED(gs_checked_channel(THIS_CALL, channel));
    struct claimed claimed = {.first = NULL};
    spin_lock(&channel->lock);
    channel->is_closed = true;
    while (claim(&channel->receivers, -EPIPE, &claimed))
        ;
    while (claim(&channel->senders, -EPIPE, &claimed))
        ;
    spin_unlock(&channel->lock);
    claimed_make_ready(worker_current(), &claimed);
}
