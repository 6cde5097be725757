/* Descriptors, signals, children and threads as cases of gs_select. */
#include "thread/io/descriptors.h"
#include "thread/schedule/thread_extra.h"
#include "thread/schedule/waiters.h"
#include "thread/sync/select.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* ---- Trying ----
 * Each returns whether the case was done, or -errno. */

/* For a descriptor, the waiter is used for this only. */
static unsigned closes_of(const struct gs_select *each)
{
    return (unsigned)each->waiter.value;
}

void gs_select_begin_events(struct gs_select *cases, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct gs_select *each = select_sorted(cases, i);
        each->waiter.value = each->thread || !each->events ? 0 : gs_descriptor_closes(each->fd);
    }
}

static int try_descriptor(struct gs_select *each)
{
    struct gs_poll poll = {.fd = each->fd, .events = each->events};
    if (each->fd < 0)
        return -EBADF;
    int ready = gs_poll_now(&poll, closes_of(each));
    if (ready > 0)
        each->result = poll.revents;
    return ready;
}

static int try_signals(struct gs_select *each)
{
    int number;
    do
        number = gs_sys_take_signal(each->signals);
    while (number == -EINTR);
    if (number < 0)
        return number == -EAGAIN ? 0 : number;
    each->result = number;
    return 1;
}

static int try_child(struct gs_select *each)
{
    int status = 0;
    pid_t pid = gs_sys_wait4(each->child, &status, WNOHANG);
    if (pid < 0 && pid != -ECHILD)
        return pid;
    if (pid)
        each->result = pid < 0 ? -ECHILD : status;
    return pid != 0;
}

/* With the lock: when it is released, the thread that has ended is not touched by its worker. */
static bool has_ended(struct gs_thread *thread)
{
    spin_lock(&thread->lock);
    bool is_done = thread->is_done;
    spin_unlock(&thread->lock);
    return is_done;
}

static int try_thread(struct gs_select *each)
{
    if (each->thread == thread_current())
        return -EDEADLK;
    if (!has_ended(each->thread))
        return 0;
    each->result = 0;
    return 1;
}

static int try_event(struct gs_select *each)
{
    if (each->thread)
        return try_thread(each);
    if (each->events)
        return try_descriptor(each);
    if (each->signals)
        return try_signals(each);
    return each->child > 0 ? try_child(each) : -EINVAL;
}

int gs_select_try_events(struct gs_select *cases, unsigned count, unsigned start)
{
    for (unsigned i = 0; i < count; i++) {
        struct gs_select *each = select_sorted(cases, (start + i) % count);
        int done = try_event(each);
        if (done)
            return done < 0 ? done : (int)(each - cases);
    }
    return -EAGAIN;
}

/* ---- Descriptors to wait with ---- */

static int open_event(const struct gs_select *each)
{
    if (each->events)
        return each->fd;
    if (each->signals)
        return gs_sys_signalfd(each->signals, SFD_CLOEXEC | SFD_NONBLOCK);
    int fd = gs_sys_pidfd_open(each->child, 0);
    return fd == -ESRCH ? -EAGAIN : fd; /* other code has waited for the child */
}

static void close_event(const struct gs_select *each, const struct gs_poll *poll)
{
    if (!each->events)
        gs_close(poll->fd);
}

static int allocate(struct select_events *events)
{
    struct poll_waiters *waiters = &events->waiters;
    waiters->polls = events->few_polls;
    waiters->each = events->few_waiters;
    waiters->count = 0;
    if (events->count <= FEW_EVENTS)
        return 0;
    waiters->polls = calloc(events->count, sizeof *waiters->polls);
    waiters->each = calloc(events->count, sizeof *waiters->each);
    if (waiters->polls && waiters->each)
        return 0;
    free(waiters->polls);
    free(waiters->each);
    return -ENOMEM;
}

/* The descriptors are those of the cases that are no threads, in the same order. */
int gs_select_open_events(struct select_events *events, struct gs_thread *self)
{
    struct poll_waiters *waiters = &events->waiters;
    int err = allocate(events);
    if (err)
        return err;
    waiters->notification.thread = self;
    for (unsigned i = 0; i < events->count; i++) {
        const struct gs_select *each = select_sorted(events->cases, i);
        if (each->thread && gs_thread_get_extra(each->thread))
            continue;
        int fd = each->thread ? -ENOMEM : open_event(each);
        if (fd < 0) {
            gs_select_close_events(events);
            return fd;
        }
        waiters->each[waiters->count].closes =
            each->events ? closes_of(each) : gs_descriptor_closes(fd);
        waiters->polls[waiters->count++] =
            (struct gs_poll){.fd = fd, .events = each->events ? each->events : GS_READ};
    }
    events->is_external = waiters->count;
    return 0;
}

void gs_select_close_events(struct select_events *events)
{
    struct poll_waiters *waiters = &events->waiters;
    const struct gs_poll *poll = waiters->polls, *end = poll + waiters->count;
    for (unsigned i = 0; poll < end; i++) {
        const struct gs_select *each = select_sorted(events->cases, i);
        if (!each->thread)
            close_event(each, poll++);
    }
    if (waiters->polls == events->few_polls)
        return;
    free(waiters->polls);
    free(waiters->each);
}

/* ---- Waiters ---- */

static void watch(struct gs_select *each, struct notification *notification)
{
    struct gs_thread *thread = each->thread;
    each->waiter = (struct gs_waiter){.item = notification};
    spin_lock(&thread->lock);
    if (!thread->is_done)
        waiters_append(&thread_extra(thread)->watchers, &each->waiter);
    spin_unlock(&thread->lock);
}

/* A thread that has ended is not joined before the call returns; the lock waits for its worker,
 * which may be notifying. */
static void unwatch(struct gs_select *each)
{
    struct gs_thread *thread = each->thread;
    spin_lock(&thread->lock);
    if (waiter_is_queued(&each->waiter))
        waiters_remove(&thread_extra(thread)->watchers, &each->waiter);
    spin_unlock(&thread->lock);
}

int gs_select_enqueue_events(struct select_events *events)
{
    int err = gs_poll_enqueue(&events->waiters);
    for (unsigned i = 0; !err && i < events->count; i++) {
        struct gs_select *each = select_sorted(events->cases, i);
        if (each->thread)
            watch(each, &events->waiters.notification);
    }
    return err;
}

void gs_select_dequeue_events(struct select_events *events)
{
    for (unsigned i = 0; i < events->count; i++) {
        struct gs_select *each = select_sorted(events->cases, i);
        if (each->thread)
            unwatch(each);
    }
    gs_poll_dequeue(&events->waiters);
}

void gs_select_claim_watchers(struct thread_extra *ended, struct claimed *claimed)
{
    while (ended->watchers.first) {
        struct gs_waiter *waiter = waiters_pop(&ended->watchers);
        struct notification *notification = waiter->item;
        if (gs_notification_claim(notification)) {
            waiter->thread = notification->thread;
            claimed_add(claimed, waiter);
        }
    }
}
