/* Waiting for several descriptors: the kernel is asked first, and then again after each report for one of them. */
#include "thread/descriptors.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <poll.h>
#include <stdlib.h>

/* What the kernel says now. Returns how many are ready, or -errno. */
static int look(struct gs_poll *polls, unsigned count)
{
    int ready = 0;
    for (unsigned i = 0; i < count; i++) {
        struct pollfd each = {.fd = polls[i].fd};
        each.events = (short)(polls[i].wanted & GS_READ ? POLLIN | POLLRDHUP : 0);
        each.events = (short)(each.events | (polls[i].wanted & GS_WRITE ? POLLOUT : 0));
        int err = gs_sys_poll(&each, 1, 0);
        if (err < 0)
            return err;
        unsigned got = (unsigned short)each.revents;
        unsigned events = got & (POLLIN | POLLRDHUP) ? GS_READ : 0;
        events |= got & POLLOUT ? GS_WRITE : 0;
        events |= got & (POLLERR | POLLHUP | POLLNVAL) ? GS_READ | GS_WRITE : 0;
        polls[i].ready = (uint8_t)(events & polls[i].wanted);
        ready += polls[i].ready != 0;
    }
    return ready;
}

/* A descriptor's report may come while the others are still being looked at: it is noted, and wakes the thread if it waits. Who
 * reports holds the lock of a descriptor at which a waiter is queued, so that this stays until it is done. */
struct report {
    struct gs_spin lock;
    bool has_come, is_waited_for;
    struct gs_thread *thread;
};

struct waiters {
    struct gs_poll *polls;
    struct gs_waiter (*each)[2]; /* for reading, for writing */
    unsigned count;
    struct report report;
};

void gs_poll_report(struct worker *worker, void *argument)
{
    struct report *report = argument;
    spin_lock(&report->lock);
    report->has_come = true;
    bool is_claimed = report->is_waited_for && thread_claim(report->thread, CLAIM_WOKEN);
    spin_unlock(&report->lock);
    if (is_claimed)
        thread_ready_by(worker, report->thread);
}

/* Returns 0 once a report has come, or -errno. */
static int wait_for_one(struct report *report, const struct wait *wait)
{
    spin_lock(&report->lock);
    if (report->has_come) {
        spin_unlock(&report->lock);
        return 0;
    }
    report->is_waited_for = true;
    int err = gs_thread_wait(report->thread, &report->lock, wait);
    spin_lock(&report->lock);
    report->is_waited_for = false;
    spin_unlock(&report->lock);
    return err;
}

static struct gs_wait_queue *queue_of(struct descriptor *descriptor, int direction)
{
    return direction ? &descriptor->writers : &descriptor->readers;
}

/* Returns 0, or -errno if it cannot be waited for. */
static int enqueue(struct waiters *waiters, unsigned i)
{
    int fd = waiters->polls[i].fd;
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor)
        return -EBADF;
    spin_lock(&descriptor->lock);
    int err = gs_descriptor_watch(descriptor, fd);
    for (int direction = 0; !err && direction < 2; direction++) {
        if (!(waiters->polls[i].wanted & (direction ? GS_WRITE : GS_READ)))
            continue;
        waiters->each[i][direction] = (struct gs_waiter){.item = &waiters->report};
        waiters_append(queue_of(descriptor, direction), &waiters->each[i][direction]);
    }
    spin_unlock(&descriptor->lock);
    return err;
}

static void dequeue(struct waiters *waiters, unsigned i)
{
    struct descriptor *descriptor = gs_descriptor(waiters->polls[i].fd);
    if (!descriptor)
        return;
    spin_lock(&descriptor->lock);
    for (int direction = 0; direction < 2; direction++)
        if (waiter_is_queued(&waiters->each[i][direction]))
            waiters_remove(queue_of(descriptor, direction), &waiters->each[i][direction]);
    spin_unlock(&descriptor->lock);
}

/* Returns 0 after some report, or -errno. The kernel is asked once more when the waiters are queued. */
static int wait_for_report(struct waiters *waiters, uint64_t deadline_ns)
{
    static const struct wait_kind polling = {"poll", true};
    const struct wait wait = {&polling, waiters->polls, deadline_ns, false};
    unsigned queued = 0;
    int err = 0;
    waiters->report.has_come = false;
    for (; !err && queued < waiters->count; queued += !err)
        err = enqueue(waiters, queued);
    int ready = err ? err : look(waiters->polls, waiters->count);
    if (!ready)
        err = wait_for_one(&waiters->report, &wait);
    while (queued)
        dequeue(waiters, --queued);
    return ready < 0 ? ready : err;
}

#define FEW 4

int gs_poll(struct gs_poll *polls, unsigned count, uint64_t deadline_ns)
{
    struct gs_waiter few[FEW][2] = {0};
    struct waiters waiters = {
        .polls = polls, .each = few, .count = count, .report.thread = thread_current()};
    int ready = look(polls, count);
    if (ready || !deadline_ns)
        return ready;
    if (count > FEW)
        waiters.each = calloc(count, sizeof *waiters.each);
    if (!waiters.each)
        return -ENOMEM;
    do {
        int err = wait_for_report(&waiters, deadline_ns);
        ready = look(polls, count);
        if (err && !ready) {
            ready = err == -ETIMEDOUT ? 0 : err;
            break;
        }
    } while (!ready);
    if (waiters.each != few)
        free(waiters.each);
    return ready;
}
