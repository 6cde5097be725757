#include "loop/epoll_batch.h"
#include "base/ring.h"
#include "loop/poller_epoll.h"
#include "loop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <stdlib.h>

struct epoll_batch {
    bool is_open; /* else io_uring is not available */
    struct gs_ring ring;
    struct epoll_event events[EPOLL_BATCH_SIZE];
};

/* The entries differ only in the descriptor and its event. */
static void init_sqes(struct epoll_batch *batch, int set)
{
    for (unsigned i = 0; i < EPOLL_BATCH_SIZE; i++)
        gs_ring_prep(&batch->ring.sqes[i], IORING_OP_EPOLL_CTL, set, &batch->events[i],
                     EPOLL_CTL_ADD);
}

static void close_ring(struct epoll_batch *batch)
{
    if (batch->is_open)
        gs_ring_done(&batch->ring);
    batch->is_open = false;
}

/* The descriptor of a watcher was closed without notice, and its number must not refer to the ring.
 * Returns whether the ring has another number. */
static bool avoid_watched_number(const struct gs_loop *loop, struct gs_ring *ring)
{
    if ((unsigned)ring->fd >= loop->slot_count || !loop->slots[ring->fd].first)
        return true;
    int fd = gs_sys_fcntl(ring->fd, F_DUPFD_CLOEXEC, (int)loop->slot_count);
    if (fd < 0)
        return false;
    gs_own_descriptor_close(ring->fd);
    ring->fd = gs_own_descriptor(fd);
    return true;
}

static struct epoll_batch *new_batch(const struct gs_loop *loop, int set)
{
    const uint8_t operation = IORING_OP_EPOLL_CTL;
    struct epoll_batch *batch = malloc(sizeof *batch);
    if (!batch)
        return NULL;
    batch->is_open = !gs_ring_init(&batch->ring, EPOLL_BATCH_SIZE, 0);
    if (!batch->is_open)
        return batch;
    if (gs_ring_supports(&batch->ring, &operation, 1) && avoid_watched_number(loop, &batch->ring))
        init_sqes(batch, set);
    else
        close_ring(batch);
    return batch;
}

void gs_epoll_batch_free(struct epoll_batch *batch)
{
    if (batch)
        close_ring(batch);
    free(batch);
}

/* Each event carries the generation that the slot will have once it is added. */
static void fill_sqes(struct gs_loop *loop, struct epoll_batch *batch, const int *fds,
                      unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct slot *slot = &loop->slots[fds[i]];
        struct io_uring_sqe *sqe = gs_ring_reuse_sqe(&batch->ring);
        struct epoll_event *event = &batch->events[sqe - batch->ring.sqes];
        *event = gs_loop_epoll_event(fds[i], slot->generation + 1, gs_loop_wanted(slot));
        sqe->off = (uint32_t)fds[i];
        sqe->user_data = (uint32_t)fds[i];
    }
}

static void handle_completion(struct gs_loop *loop, struct slot *slot, int result)
{
    if (result && (result != -EEXIST || !slot->registered))
        return;
    slot->flags &= (uint8_t)~(SLOT_CHANGED | SLOT_VERIFY);
    slot->registered = (uint8_t)gs_loop_wanted(slot);
    slot->files = (uint8_t)(slot->files + !result);
    loop->counts.files += !result;
    if (!result && ++slot->generation > 1)
        slot->flags |= SLOT_REUSED;
}

void gs_epoll_batch_add(struct gs_loop *loop, struct epoll_batch **batch, int set, const int *fds,
                        unsigned count)
{
    if (!*batch)
        *batch = new_batch(loop, set);
    if (!*batch || !(*batch)->is_open || !count)
        return;
    struct gs_ring *ring = &(*batch)->ring;
    fill_sqes(loop, *batch, fds, count);
    loop->counts.interest_calls++;
    int err;
    do
        err = gs_ring_enter(ring, count, GS_NEVER);
    while (!err && gs_ring_cq_ready(ring) < count);
    for (struct io_uring_cqe *cqe; (cqe = gs_ring_peek_cqe(ring)); gs_ring_cqe_seen(ring))
        handle_completion(loop, &loop->slots[cqe->user_data], cqe->res);
    if (err)
        close_ring(*batch);
}
