/* The monitor polls the file descriptors for which threads wait on stuck workers: it wakes these
 * threads, or counts what is ready.
 *
 * This uses nothing of the stuck workers' loops, so it works with every poller. The queues are read
 * without a lock, as by may_have_waiters in descriptors.c: with one worker, the worker would not
 * respect one. */
#include "thread/io/descriptors.h"

#include <gossamer/sys.h>
#include <poll.h>

#define BATCH_SIZE 128

struct poll_batch {
    struct pollfd polls[BATCH_SIZE];
    unsigned count;
    const struct worker *worker; /* count what its threads wait for; NULL: wake those of all */
    unsigned ready;
};

/* A spurious event does no harm. If a woken thread waits again on another worker, that worker
 * watches the descriptor. */
static void notify(int fd, unsigned revents)
{
    unsigned events = revents & POLLIN ? GS_READ : 0;
    events |= revents & POLLOUT ? GS_WRITE : 0;
    events |= revents & (POLLERR | POLLHUP | POLLNVAL) ? GS_READ | GS_WRITE : 0;
    events |= revents & (POLLRDHUP | POLLHUP) ? GS_HANGUP : 0;
    events |= revents & POLLPRI ? GS_READ | GS_URGENT : 0;
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!events || !descriptor)
        return;
    spin_lock_always(&descriptor->lock);
    gs_descriptor_notify(NULL, descriptor, events, 0);
    spin_unlock_always(&descriptor->lock);
}

/* What cannot be polled (POLLNVAL) was closed behind the runtime's back: it does not count. */
static void flush_batch(struct poll_batch *batch)
{
    int n = batch->count ? gs_sys_poll(batch->polls, batch->count, 0) : 0;
    for (unsigned i = 0; n > 0 && i < batch->count; i++) {
        unsigned revents = (unsigned short)batch->polls[i].revents;
        if (batch->worker)
            batch->ready += revents && !(revents & POLLNVAL);
        else
            notify(batch->polls[i].fd, revents);
    }
    batch->count = 0;
}

static bool has_waiters(const struct gs_wait_queue *queue)
{
    return __atomic_load_n(&queue->first, __ATOMIC_RELAXED);
}

static void add_to_batch(struct descriptor *descriptor, int fd, void *data)
{
    struct poll_batch *batch = data;
    const struct worker *owner = descriptor_owner(descriptor);
    if (!owner || (batch->worker ? owner != batch->worker : !atomic_load(&owner->is_stuck)))
        return;
    struct pollfd poll = {.fd = fd};
    poll.events = (short)((has_waiters(&descriptor->readers) ? POLLIN | POLLRDHUP | POLLPRI : 0) |
                          (has_waiters(&descriptor->writers) ? POLLOUT : 0));
    if (poll.events)
        batch->polls[batch->count++] = poll;
    if (batch->count == BATCH_SIZE)
        flush_batch(batch);
}

void gs_descriptors_poll_stuck(void)
{
    struct poll_batch batch = {.count = 0};
    gs_descriptors_foreach(add_to_batch, &batch);
    flush_batch(&batch);
}

unsigned gs_descriptors_count_ready(const struct worker *worker)
{
    struct poll_batch batch = {.worker = worker};
    gs_descriptors_foreach(add_to_batch, &batch);
    flush_batch(&batch);
    return batch.ready;
}
