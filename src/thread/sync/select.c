/* gs_select: all channels are locked, in the order of their addresses, so that two selects cannot
 * deadlock. If no case is possible, a waiter for each is queued; claiming the first of them claims
 * the thread, and decides the case.
 *
 * Cases that are no channels (select.h) are tried without locks, and never taken by a wake-up: a
 * notification (poll.h) claims the thread, too, and then all cases are tried again. So an item that
 * arrives after the claim finds no waiter that can be claimed, and what has become ready elsewhere
 * after the item has decided stays where it is (docs/design/schedules.md). */
#include "thread/sync/select.h"
#include "thread/schedule/off_stack.h"
#include "thread/sync/channel.h"

struct case_set {
    struct gs_select *cases;
    unsigned count;
    unsigned first;               /* of the channels, in sorted order: the others have NULL */
    struct select_events *events; /* that are waited for; NULL: none */
};

static struct gs_channel *channel_at(const struct gs_select *cases, unsigned i_sorted)
{
    return cases[cases[i_sorted].order].channel;
}

/* Sort by address: `order` of the i-th element is the index of the i-th case. Insertion sort, as
 * there are few cases. */
static void sort(struct case_set *set)
{
    struct gs_select *cases = set->cases;
    for (unsigned i = 0; i < set->count; i++) {
        unsigned i_sorted = i;
        for (; i_sorted && (uintptr_t)channel_at(cases, i_sorted - 1) > (uintptr_t)cases[i].channel;
             i_sorted--)
            cases[i_sorted].order = cases[i_sorted - 1].order;
        cases[i_sorted].order = i;
        set->first += !cases[i].channel;
    }
}

static void lock_all(const struct case_set *set)
{
    for (unsigned i = set->first; i < set->count; i++)
        if (i == set->first || channel_at(set->cases, i) != channel_at(set->cases, i - 1))
            spin_lock(&channel_at(set->cases, i)->lock);
}

/* The set is a copy: a thread that has waited locks all channels again, the last one of this order
 * first, and may return as soon as that is unlocked. */
static void unlock_except(const struct case_set set, const struct gs_channel *except)
{
    for (unsigned i = set.count; i-- > set.first;) {
        struct gs_channel *channel = channel_at(set.cases, i);
        if (channel != except && (i == set.first || channel != channel_at(set.cases, i - 1)))
            spin_unlock(&channel->lock);
    }
}

static void unlock_all(const struct case_set *set)
{
    unlock_except(*set, NULL);
}

static void unlock_after(void *argument)
{
    const struct case_set set = *(const struct case_set *)argument;
    if (set.events)
        spin_unlock(&set.events->waiters.notification.lock);
    unlock_except(set, NULL);
}

static struct gs_wait_queue *queue_of(struct gs_select *each)
{
    return each->send ? &each->channel->senders : &each->channel->receivers;
}

static bool try_case(struct gs_select *each, struct claimed *claimed)
{
    return each->send
               ? gs_channel_try_send(each->channel, each->send, &each->result, claimed)
               : gs_channel_try_receive(each->channel, each->receive, &each->result, claimed);
}

/* Try the cases from `start` on, so that no case is always preferred. Returns the index, or -1. */
static int try_cases(const struct case_set *set, unsigned start, struct claimed *claimed)
{
    for (unsigned i = 0; i < set->count; i++) {
        unsigned index = (start + i) % set->count;
        if (set->cases[index].channel && try_case(&set->cases[index], claimed))
            return (int)index;
    }
    return -1;
}

/* Lock all channels and try them. Returns the index of the case that was done, without any lock
 * held, or -1, with all of them locked. */
static int try_channels(const struct case_set *set, struct gs_thread *self, unsigned start)
{
    struct claimed claimed = {.first = NULL};
    lock_all(set);
    int index = try_cases(set, start, &claimed);
    if (index < 0)
        return -1;
    /* The channel of the case that was done is unlocked last: the thread that finds its item there
     * may free all channels. */
    struct gs_channel *last = set->cases[index].channel;
    unlock_except(*set, last);
    spin_unlock(&last->lock);
    claimed_make_ready(self->worker, &claimed);
    return index;
}

/* Suspend, unless a notification has arrived; the waiters are queued, and the channels locked,
 * which this unlocks. Returns 0 or -errno. */
static int suspend(struct case_set *set, struct gs_thread *self, const struct wait *wait)
{
    if (!set->events)
        return gs_thread_wait_then(self, unlock_after, set, wait);
    return gs_notification_wait(&set->events->waiters.notification, wait, unlock_after, set);
}

static void init_waiters(const struct case_set *set, struct gs_thread *self, struct off_stack *off)
{
    for (unsigned i = 0; i < set->count; i++) {
        struct gs_select *each = &set->cases[i];
        if (!each->channel)
            continue;
        const void *item = each->send ? each->send : each->receive;
        each->waiter = (struct gs_waiter){
            .thread = self, .item = off_stack_in(off, item, each->channel->item_size)};
    }
}

/* The waiter of the case was claimed. */
static void end_case(struct gs_select *done)
{
    if (UNLIKELY(done->waiter.item != done->receive) && !done->send && !done->result)
        memcpy(done->receive, done->waiter.item, done->channel->item_size);
}

/* Queue the waiters at the channels and wait; all channels are locked. Returns the index of the
 * case that was done, -EAGAIN (a notification has arrived), or another error. */
static int wait_in_queues(struct case_set *set, struct gs_thread *self, uint64_t deadline_ns)
{
    static const struct wait_kind selecting = {.name = "select"},
                                  selecting_events = {.name = "select", .is_external = true};
    bool is_external = set->events && set->events->is_external;
    const struct wait wait = {is_external ? &selecting_events : &selecting, set->cases,
                              deadline_ns};
    self->woken_by = NULL;
    for (unsigned i = 0; i < set->count; i++)
        if (set->cases[i].channel)
            waiters_append(queue_of(&set->cases[i]), &set->cases[i].waiter);
    int err = suspend(set, self, &wait);
    lock_all(set);
    for (unsigned i = 0; i < set->count; i++)
        if (set->cases[i].channel && waiter_is_queued(&set->cases[i].waiter))
            waiters_remove(queue_of(&set->cases[i]), &set->cases[i].waiter);
    unlock_all(set);
    if (err)
        return err;
    if (!self->woken_by)
        return -EAGAIN;
    struct gs_select *done = gs_container_of(self->woken_by, struct gs_select, waiter);
    end_case(done);
    return (int)(done - set->cases);
}

/* Wait with copies of the cases and items, if need be; with events, the cases are copies already.
 * Returns as wait_in_queues. */
static int wait_for_any(struct case_set *set, struct gs_thread *self, uint64_t deadline_ns)
{
    struct off_stack off = {.thread = self};
    struct gs_select *cases = set->cases;
    if (!set->events)
        set->cases = off_stack_out(&off, cases, set->count * sizeof *cases);
    init_waiters(set, self, &off);
    int index = off.err;
    if (index)
        unlock_all(set);
    else
        index = wait_in_queues(set, self, deadline_ns);
    off_stack_end(&off);
    set->cases = cases;
    return index;
}

/* ---- With cases that are no channels ---- */

/* Try all cases once: channels or events first, in turns. Returns the index of the case that was
 * done, or -errno; -EAGAIN: none is possible, and all channels are locked. */
static int try_all(const struct case_set *set, struct gs_thread *self)
{
    unsigned start = self->select_start++;
    if (start / set->count % 2) {
        int index = try_channels(set, self, start);
        if (index >= 0)
            return index;
        unlock_all(set);
    }
    int index = gs_select_try_events(set->cases, set->first, start);
    if (index != -EAGAIN)
        return index;
    index = try_channels(set, self, start);
    return index < 0 ? -EAGAIN : index;
}

/* The waiters of descriptors and threads are queued before all cases are tried again: so what
 * happens after a try is notified. Returns as wait_for_any. */
static int wait_with_events(struct case_set *set, struct gs_thread *self, uint64_t deadline_ns)
{
    int index = gs_select_enqueue_events(set->events);
    if (index)
        return index;
    index = try_all(set, self);
    if (index == -EAGAIN)
        index = wait_for_any(set, self, deadline_ns);
    gs_select_dequeue_events(set->events);
    return index;
}

static int select_by(struct select_events *events, struct case_set *set, struct gs_thread *self,
                     uint64_t deadline_ns)
{
    int index;
    gs_select_begin_events(set->cases, set->first);
    do {
        index = try_all(set, self);
        if (index != -EAGAIN)
            return index;
        unlock_all(set);
        if (!deadline_ns)
            return thread_must_cancel(self) ? -ECANCELED : -ETIMEDOUT;
        index = gs_select_open_events(events, self);
    } while (index == -EAGAIN);
    if (index)
        return index;
    set->events = events;
    do
        index = wait_with_events(set, self, deadline_ns);
    while (index == -EAGAIN);
    gs_select_close_events(events);
    set->events = NULL;
    return index;
}

static int select_with_events(struct case_set *set, struct gs_thread *self, uint64_t deadline_ns)
{
    struct off_stack off = {.thread = self};
    struct select_events local = {.count = set->first};
    struct select_events *events = off_stack_in(&off, &local, sizeof local);
    set->cases = off_stack_out(&off, set->cases, set->count * sizeof *set->cases);
    events->cases = set->cases;
    int index = off.err ? off.err : select_by(events, set, self, deadline_ns);
    off_stack_end(&off);
    return index;
}

int gs_select(struct gs_select *cases, unsigned count, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    IF_CHECKED(gs_checked_cases(THIS_CALL, cases, count));
    struct gs_thread *self = thread_current();
    struct case_set set = {.cases = cases, .count = count};
    if (!count)
        return -EINVAL;
    sort(&set);
    if (set.first)
        return select_with_events(&set, self, deadline_ns);
    int index = try_channels(&set, self, self->select_start++ % count);
    return index < 0 ? wait_for_any(&set, self, deadline_ns) : index;
}
