/* gs_poll: waits for several descriptors. They are polled first, and again after each event of one
 * of them. */
#include "thread/io/poll.h"
#include "thread/io/descriptors.h"
#include "thread/schedule/dispatch.h"
#include "thread/schedule/off_stack.h"
#include "thread/schedule/turn.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdlib.h>

int gs_poll_now(struct gs_poll *poll, unsigned closes)
{
    struct pollfd each = {.fd = poll->fd};
    if (UNLIKELY(gs_descriptor_closes(poll->fd) != closes)) {
        poll->revents = poll->events;
        return poll->revents != 0;
    }
    each.events = (short)(poll->events & GS_READ ? POLLIN | POLLRDHUP : 0);
    each.events = (short)(each.events | (poll->events & GS_WRITE ? POLLOUT : 0));
    int err;
    do
        err = gs_sys_poll(&each, 1, 0);
    while (err == -EINTR);
    if (err < 0)
        return err;
    unsigned revents = (unsigned short)each.revents;
    unsigned events = revents & (POLLIN | POLLRDHUP) ? GS_READ : 0;
    events |= revents & POLLOUT ? GS_WRITE : 0;
    events |= revents & (POLLERR | POLLHUP | POLLNVAL) ? GS_READ | GS_WRITE : 0;
    poll->revents = (uint8_t)(events & poll->events);
    return poll->revents != 0;
}

/* Returns how many are ready, or -errno. */
static int poll_all(const struct poll_waiters *waiters)
{
    int count = 0;
    for (unsigned i = 0; i < waiters->count; i++) {
        int ready = gs_poll_now(&waiters->polls[i], waiters->each[i].closes);
        if (ready < 0)
            return ready;
        count += ready;
    }
    return count;
}

bool gs_notification_claim(struct notification *notification)
{
    spin_lock(&notification->lock);
    notification->is_pending = true;
    bool is_claimed =
        notification->is_waited_for && thread_claim(notification->thread, CLAIM_WOKEN);
    spin_unlock(&notification->lock);
    return is_claimed;
}

void gs_poll_notify(struct worker *worker, void *argument)
{
    struct notification *notification = argument;
    if (gs_notification_claim(notification))
        thread_make_ready_from(worker, notification->thread);
}

int gs_notification_wait(struct notification *notification, const struct wait *wait,
                         void (*unlock)(void *), void *argument)
{
    spin_lock(&notification->lock);
    if (notification->is_pending) {
        unlock(argument);
        return 0;
    }
    notification->is_waited_for = true;
    int err = gs_thread_wait_then(notification->thread, unlock, argument, wait);
    spin_lock(&notification->lock);
    notification->is_waited_for = false;
    spin_unlock(&notification->lock);
    return err;
}

/* Returns 0 after a notification, or -errno. */
static int wait_for_one(struct notification *notification, const struct wait *wait)
{
    return gs_notification_wait(notification, wait, gs_spin_unlock_callback, &notification->lock);
}

static const unsigned directions[] = {GS_READ, GS_WRITE};

static void queue_waiters(struct poll_waiters *waiters, unsigned i, struct descriptor *descriptor)
{
    struct gs_waiter *waiter = waiters->each[i].directions;
    for (int k = 0; k < 2; k++) {
        if (!(waiters->polls[i].events & directions[k]))
            continue;
        waiter[k] = (struct gs_waiter){.item = &waiters->notification};
        waiters_append(descriptor_queue(descriptor, directions[k]), &waiter[k]);
    }
}

/* Watch a descriptor and queue its waiters. Returns 0 or -errno. */
static int enqueue(struct poll_waiters *waiters, unsigned i)
{
    int fd = waiters->polls[i].fd, err = 0;
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor)
        return fd < 0 ? 0 : -ENOMEM;
    const struct opened file = {descriptor, fd, waiters->each[i].closes, true};
    spin_lock(&descriptor->lock);
    bool is_closed = opened_is_closed(&file);
    if (!is_closed)
        err = gs_descriptor_watch(descriptor, fd);
    if (!is_closed && !err)
        queue_waiters(waiters, i, descriptor);
    spin_unlock(&descriptor->lock);
    if (UNLIKELY(is_closed))
        (void)gs_notification_claim(&waiters->notification); /* nobody waits yet */
    return err;
}

static void dequeue(struct poll_waiters *waiters, unsigned i)
{
    struct descriptor *descriptor = gs_descriptor(waiters->polls[i].fd);
    struct gs_waiter *waiter = waiters->each[i].directions;
    if (!descriptor)
        return;
    spin_lock(&descriptor->lock);
    for (int k = 0; k < 2; k++)
        if (waiter_is_queued(&waiter[k]))
            waiters_remove(descriptor_queue(descriptor, directions[k]), &waiter[k]);
    spin_unlock(&descriptor->lock);
}

static void dequeue_first(struct poll_waiters *waiters, unsigned count)
{
    while (count)
        dequeue(waiters, --count);
}

int gs_poll_enqueue(struct poll_waiters *waiters)
{
    unsigned queued = 0;
    int err = 0;
    waiters->notification.is_pending = false;
    for (; !err && queued < waiters->count; queued += !err)
        err = enqueue(waiters, queued);
    if (err)
        dequeue_first(waiters, queued);
    return err;
}

void gs_poll_dequeue(struct poll_waiters *waiters)
{
    dequeue_first(waiters, waiters->count);
}

/* ---- Interrupts ---- */

/* gs_interrupt wakes this wait from now on. Returns false if it was called before. */
static bool arm(struct gs_interrupt *interrupt, struct notification *notification)
{
    spin_lock(&interrupt->lock);
    bool was_set = interrupt->is_set;
    interrupt->is_set = false;
    interrupt->waiting = was_set ? NULL : notification;
    spin_unlock(&interrupt->lock);
    return !was_set;
}

/* Returns whether it was called meanwhile. */
static bool disarm(struct gs_interrupt *interrupt)
{
    spin_lock(&interrupt->lock);
    bool was_set = interrupt->is_set;
    interrupt->is_set = false;
    interrupt->waiting = NULL;
    spin_unlock(&interrupt->lock);
    return was_set;
}

/* The notification remains while the lock is held, and the thread until it is made ready. */
void gs_interrupt(struct gs_interrupt *interrupt)
{
    CHECKED_WORKER();
    struct gs_thread *claimed = NULL;
    spin_lock(&interrupt->lock);
    interrupt->is_set = true;
    struct notification *waiting = interrupt->waiting;
    if (waiting && gs_notification_claim(waiting))
        claimed = waiting->thread;
    spin_unlock(&interrupt->lock);
    if (claimed)
        thread_make_ready(worker_current(), claimed);
}

static int wait_interruptible(struct notification *notification, const struct wait *wait,
                              struct gs_interrupt *interrupt)
{
    if (!interrupt)
        return wait_for_one(notification, wait);
    if (!arm(interrupt, notification))
        return -EINTR;
    int err = wait_for_one(notification, wait);
    return disarm(interrupt) ? -EINTR : err;
}

/* ---- Polling ---- */

/* Returns 0 after a notification, or -errno. The descriptors are polled once more when the waiters
 * are queued. */
static int wait_for_notification(struct poll_waiters *waiters, uint64_t deadline_ns,
                                 struct gs_interrupt *interrupt)
{
    static const struct wait_kind polling = {"poll", true};
    const struct wait wait = {&polling, waiters->polls, deadline_ns};
    int err = gs_poll_enqueue(waiters);
    if (err)
        return err;
    int ready = poll_all(waiters);
    if (!ready)
        err = wait_interruptible(&waiters->notification, &wait, interrupt);
    gs_poll_dequeue(waiters);
    return ready < 0 ? ready : err;
}

/* Returns how many are ready, or -errno. */
static int wait_and_poll(struct poll_waiters *waiters, uint64_t deadline_ns,
                         struct gs_interrupt *interrupt)
{
    int ready;
    do {
        int err = wait_for_notification(waiters, deadline_ns, interrupt);
        ready = poll_all(waiters);
        if (err && !ready)
            return err == -ETIMEDOUT ? 0 : err;
    } while (!ready);
    return ready;
}

static int wait_for_any(const struct poll_waiters *local, uint64_t deadline_ns,
                        struct gs_interrupt *interrupt)
{
    struct off_stack off = {.thread = local->notification.thread};
    struct poll_waiters *waiters = off_stack_in(&off, local, sizeof *local);
    waiters->each = off_stack_in(&off, local->each, local->count * sizeof *local->each);
    int ready = off.err ? off.err : wait_and_poll(waiters, deadline_ns, interrupt);
    off_stack_end(&off);
    return ready;
}

#define FEW 4

/* interrupt: NULL: the wait ends by itself. */
static int poll_until(struct gs_poll *polls, unsigned count, uint64_t deadline_ns,
                      struct gs_interrupt *interrupt)
{
    struct poll_waiter few[FEW] = {0};
    struct poll_waiters waiters = {
        .polls = polls, .each = few, .count = count, .notification.thread = thread_current()};
    if (count > FEW)
        waiters.each = calloc(count, sizeof *waiters.each);
    if (!waiters.each)
        return -ENOMEM;
    for (unsigned i = 0; i < count; i++)
        waiters.each[i].closes = gs_descriptor_closes(polls[i].fd);
    int ready = poll_all(&waiters);
    if (ready || !deadline_ns)
        turn_spend(0, deadline_ns);
    else
        ready = wait_for_any(&waiters, deadline_ns, interrupt);
    if (waiters.each != few)
        free(waiters.each);
    return ready;
}

int gs_poll(struct gs_poll *polls, unsigned count, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    return poll_until(polls, count, deadline_ns, NULL);
}

int gs_poll_interruptible(struct gs_poll *polls, unsigned count, uint64_t deadline_ns,
                          struct gs_interrupt *interrupt)
{
    CHECKED_WAIT(deadline_ns);
    return poll_until(polls, count, deadline_ns, interrupt);
}
