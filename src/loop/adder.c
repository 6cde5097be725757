#include "loop/adder.h"
#include "base/ring.h"
#include "loop/poller_epoll.h"
#include "loop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdlib.h>

struct adder {
    bool is_open; /* else there is no ring to be had */
    struct gs_ring ring;
    struct epoll_event events[ADDER_BATCH];
};

/* They are alike but for the descriptor and its event. */
static void fill_entries(struct adder *adder, int set)
{
    for (unsigned i = 0; i < ADDER_BATCH; i++)
        gs_ring_prepare(&adder->ring.sqes[i], IORING_OP_EPOLL_CTL, set, &adder->events[i],
                        EPOLL_CTL_ADD);
}

static void close_ring(struct adder *adder)
{
    if (adder->is_open)
        gs_ring_done(&adder->ring);
    adder->is_open = false;
}

/* A number that a watcher has was closed under it, and must not come to mean the ring. Returns
 * whether the ring has another. */
static bool take_no_watched_number(const struct gs_loop *loop, struct gs_ring *ring)
{
    if ((unsigned)ring->fd >= loop->slot_count || !loop->slots[ring->fd].first)
        return true;
    int fd = gs_sys_fcntl(ring->fd, F_DUPFD_CLOEXEC, (int)loop->slot_count);
    if (fd < 0)
        return false;
    gs_sys_close(ring->fd);
    ring->fd = fd;
    return true;
}

static struct adder *new_adder(const struct gs_loop *loop, int set)
{
    const uint8_t operation = IORING_OP_EPOLL_CTL;
    struct adder *adder = malloc(sizeof *adder);
    if (!adder)
        return NULL;
    adder->is_open = !gs_ring_init(&adder->ring, ADDER_BATCH, 0);
    if (!adder->is_open)
        return adder;
    if (gs_ring_knows(&adder->ring, &operation, 1) && take_no_watched_number(loop, &adder->ring))
        fill_entries(adder, set);
    else
        close_ring(adder);
    return adder;
}

void gs_loop_free_adder(struct adder *adder)
{
    if (adder)
        close_ring(adder);
    free(adder);
}

/* Each under the generation that it has once it is added. */
static void request(struct gs_loop *loop, struct adder *adder, const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct slot *slot = &loop->slots[fds[i]];
        struct io_uring_sqe *entry = gs_ring_next_entry(&adder->ring);
        struct epoll_event *event = &adder->events[entry - adder->ring.sqes];
        *event = gs_loop_epoll_event(fds[i], slot->generation + 1, gs_loop_wanted(slot));
        entry->off = (uint32_t)fds[i];
        entry->user_data = (uint32_t)fds[i];
    }
}

static void take_answer(struct slot *slot, int result)
{
    if (result && (result != -EEXIST || !slot->registered))
        return;
    slot->flags &= (uint8_t)~(SLOT_CHANGED | SLOT_VERIFY);
    slot->registered = (uint8_t)gs_loop_wanted(slot);
    if (!result && ++slot->generation > 1)
        slot->flags |= SLOT_REUSED;
}

void gs_loop_add_many(struct gs_loop *loop, struct adder **adder, int set, const int *fds,
                      unsigned count)
{
    if (!*adder)
        *adder = new_adder(loop, set);
    if (!*adder || !(*adder)->is_open || !count)
        return;
    struct gs_ring *ring = &(*adder)->ring;
    request(loop, *adder, fds, count);
    loop->counts.interest_calls++;
    int err;
    do
        err = gs_ring_enter(ring, count, GS_NEVER);
    while (!err && gs_ring_ready(ring) < count);
    for (struct io_uring_cqe *answer; (answer = gs_ring_first(ring)); gs_ring_advance(ring))
        take_answer(&loop->slots[answer->user_data], answer->res);
    if (err)
        close_ring(*adder);
}
