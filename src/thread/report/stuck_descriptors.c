/* The monitor polls the file descriptors for which threads wait on stuck workers. */
#include "thread/io/descriptors.h"

#include <gossamer/sys.h>
#include <poll.h>

#define BATCH_SIZE 128

struct poll_batch {
    struct pollfd polls[BATCH_SIZE];
    unsigned count;
    const struct worker *worker; /* when counting: the one whose threads wait */
    unsigned ready;
};

/* ---- Waking the threads ---- */

/* Poll the descriptors, and notify the waiting threads. */
static void flush_batch(struct poll_batch *batch)
{
    (void)gs_sys_poll(batch->polls, batch->count, 0);
    for (unsigned i = 0; i < batch->count; i++) {
        unsigned revents = (unsigned short)batch->polls[i].revents;
        unsigned events = revents & POLLIN ? GS_READ : 0;
        events |= revents & POLLOUT ? GS_WRITE : 0;
        events |= revents & (POLLERR | POLLHUP | POLLNVAL) ? GS_READ | GS_WRITE : 0;
        events |= revents & (POLLRDHUP | POLLHUP) ? GS_HANGUP : 0;
        events |= revents & POLLPRI ? GS_READ | GS_URGENT : 0;
        struct descriptor *descriptor = gs_descriptor(batch->polls[i].fd);
        if (!events || !descriptor)
            continue;
        spin_lock_always(&descriptor->lock);
        gs_descriptor_notify(NULL, descriptor, events, 0);
        spin_unlock_always(&descriptor->lock);
    }
    batch->count = 0;
}

static void add_to_batch(struct descriptor *descriptor, int fd, void *data)
{
    struct poll_batch *batch = data;
    const struct worker *owner = descriptor_owner(descriptor);
    if (!owner || !atomic_load_explicit(&owner->is_stuck, memory_order_relaxed))
        return;
    spin_lock_always(&descriptor->lock);
    struct pollfd poll = {.fd = fd};
    poll.events = (short)((descriptor->readers.first ? POLLIN | POLLRDHUP | POLLPRI : 0) |
                          (descriptor->writers.first ? POLLOUT : 0));
    spin_unlock_always(&descriptor->lock);
    if (poll.events)
        batch->polls[batch->count++] = poll;
    if (batch->count == BATCH_SIZE)
        flush_batch(batch);
}

/* This uses nothing of the stuck workers' loops, so it works with every poller; a spurious event
 * does no harm. If a woken thread waits again on another worker, that worker watches the
 * descriptor. */
void gs_descriptors_poll_stuck(void)
{
    struct poll_batch batch = {.count = 0};
    gs_descriptors_foreach(add_to_batch, &batch);
    flush_batch(&batch);
}

/* ---- Counting ----
 * No lock is acquired, which with one worker the worker would not respect. The queues are read
 * without one, as by may_have_waiters in descriptors.c. */

static const struct gs_waiter *first_of(const struct gs_wait_queue *queue)
{
    return __atomic_load_n(&queue->first, __ATOMIC_RELAXED);
}

static bool has_waiters(struct descriptor *descriptor, const struct gs_wait_queue *queue,
                        const struct worker *worker)
{
    return descriptor_owner(descriptor) == worker && first_of(queue);
}

/* What cannot be polled (POLLNVAL) was closed behind the runtime's back. */
static void count_batch(struct poll_batch *batch)
{
    int n = batch->count ? gs_sys_poll(batch->polls, batch->count, 0) : 0;
    for (unsigned i = 0; n > 0 && i < batch->count; i++)
        batch->ready += batch->polls[i].revents && !(batch->polls[i].revents & POLLNVAL);
    batch->count = 0;
}

static void add_to_count(struct descriptor *descriptor, int fd, void *data)
{
    struct poll_batch *batch = data;
    struct pollfd poll = {.fd = fd};
    poll.events =
        (short)((has_waiters(descriptor, &descriptor->readers, batch->worker) ? POLLIN | POLLRDHUP
                                                                              : 0) |
                (has_waiters(descriptor, &descriptor->writers, batch->worker) ? POLLOUT : 0));
    if (poll.events)
        batch->polls[batch->count++] = poll;
    if (batch->count == BATCH_SIZE)
        count_batch(batch);
}

unsigned gs_descriptors_count_ready(const struct worker *worker)
{
    struct poll_batch batch = {.worker = worker};
    gs_descriptors_foreach(add_to_count, &batch);
    count_batch(&batch);
    return batch.ready;
}
