/* Select: all channels are locked, by address, so that two selects never wait for each other's locks; if no case is possible, a
 * waiter for each is queued, and the first that is claimed, which claims the thread, is the one that is done. */
#include "thread/channel.h"

static struct gs_channel *channel_at(const struct gs_select *cases, unsigned place)
{
    return cases[cases[place].order].channel;
}

/* By address; `order` of place i is the index of the i-th. Few cases: by insertion. */
static void sort(struct gs_select *cases, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned place = i;
        for (; place && (uintptr_t)channel_at(cases, place - 1) > (uintptr_t)cases[i].channel;
             place--)
            cases[place].order = cases[place - 1].order;
        cases[place].order = i;
    }
}

static void lock_all(struct gs_select *cases, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!i || channel_at(cases, i) != channel_at(cases, i - 1))
            spin_lock(&channel_at(cases, i)->lock);
}

static void unlock_all(struct gs_select *cases, unsigned count)
{
    for (unsigned i = count; i--;)
        if (!i || channel_at(cases, i) != channel_at(cases, i - 1))
            spin_unlock(&channel_at(cases, i)->lock);
}

struct all {
    struct gs_select *cases;
    unsigned count;
};

static void unlock_after(void *argument)
{
    const struct all *all = argument;
    unlock_all(all->cases, all->count);
}

static struct gs_wait_queue *queue_of(struct gs_select *each)
{
    return each->send ? &each->channel->senders : &each->channel->receivers;
}

static bool try(struct gs_select *each)
{
    return each->send ? gs_channel_try_send(each->channel, each->send, &each->result)
                      : gs_channel_try_receive(each->channel, each->receive, &each->result);
}

/* From `start` on, so that no case is always preferred. Returns the index, or -1. */
static int try_all(struct gs_select *cases, unsigned count, unsigned start)
{
    for (unsigned i = 0; i < count; i++)
        if (try(&cases[(start + i) % count]))
            return (int)((start + i) % count);
    return -1;
}

/* Queued at every channel; all are locked. Returns the index of the case that was done, or -errno. */
static int wait_for_any(struct all *all, struct gs_thread *self, uint64_t deadline_ns)
{
    static const struct wait_kind selecting = {.what = "select"};
    const struct wait wait = {&selecting, all->cases, deadline_ns, false};
    for (unsigned i = 0; i < all->count; i++) {
        struct gs_select *each = &all->cases[i];
        each->waiter = (struct gs_waiter){.thread = self,
                                          .item = each->send ? (void *)each->send : each->receive};
        waiters_append(queue_of(each), &each->waiter);
    }
    int err = gs_thread_wait_then(self, unlock_after, all, &wait);
    lock_all(all->cases, all->count);
    for (unsigned i = 0; i < all->count; i++)
        if (waiter_is_queued(&all->cases[i].waiter))
            waiters_remove(queue_of(&all->cases[i]), &all->cases[i].waiter);
    unlock_all(all->cases, all->count);
    if (err)
        return err;
    struct gs_select *done = gs_container_of(self->woken_by, struct gs_select, waiter);
    done->result = (int)done->waiter.value;
    return (int)(done - all->cases);
}

int gs_select(struct gs_select *cases, unsigned count, uint64_t deadline_ns)
{
    struct gs_thread *self = thread_current();
    struct all all = {cases, count};
    if (!count)
        return -EINVAL;
    sort(cases, count);
    lock_all(cases, count);
    int index = try_all(cases, count, self->select_start++ % count);
    if (index < 0)
        return wait_for_any(&all, self, deadline_ns);
    unlock_all(cases, count);
    return index;
}
