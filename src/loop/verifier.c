#include "loop/verifier.h"
#include "base/ring.h"
#include "loop/poller_epoll.h"
#include "loop/state.h"

#include <errno.h>
#include <stdlib.h>

struct verifier {
    bool is_open; /* else there is no ring to be had */
    struct gs_ring ring;
    struct epoll_event events[VERIFIER_BATCH];
};

static struct verifier *new_verifier(void)
{
    const uint8_t operation = IORING_OP_EPOLL_CTL;
    struct verifier *verifier = malloc(sizeof *verifier);
    if (!verifier)
        return NULL;
    verifier->is_open = !gs_ring_init(&verifier->ring, VERIFIER_BATCH, 0);
    if (verifier->is_open && !gs_ring_knows(&verifier->ring, &operation, 1)) {
        gs_ring_done(&verifier->ring);
        verifier->is_open = false;
    }
    return verifier;
}

static void close_ring(struct verifier *verifier)
{
    if (verifier->is_open)
        gs_ring_done(&verifier->ring);
    verifier->is_open = false;
}

void gs_loop_free_verifier(struct verifier *verifier)
{
    if (verifier)
        close_ring(verifier);
    free(verifier);
}

/* To add the file, under the generation that it would then have. */
static void ask(struct gs_loop *loop, struct verifier *verifier, int set, const int *fds)
{
    for (unsigned i = 0; i < VERIFIER_BATCH; i++) {
        const struct slot *slot = &loop->slots[fds[i]];
        verifier->events[i] = gs_loop_epoll_event(fds[i], slot->generation + 1, slot->registered);
        struct io_uring_sqe *entry = gs_ring_entry(&verifier->ring);
        gs_ring_prepare(entry, IORING_OP_EPOLL_CTL, set, &verifier->events[i], EPOLL_CTL_ADD);
        entry->off = (uint32_t)fds[i];
        entry->user_data = (uint32_t)fds[i];
    }
}

static void take_answer(struct slot *slot, int result)
{
    if (result && result != -EEXIST)
        return;
    slot->flags &= (uint8_t)~SLOT_VERIFY;
    if (!result && ++slot->generation > 1)
        slot->flags |= SLOT_REUSED;
}

void gs_loop_verify(struct gs_loop *loop, struct verifier **verifier, int set, const int *fds)
{
    if (!*verifier)
        *verifier = new_verifier();
    if (!*verifier || !(*verifier)->is_open || !fds)
        return;
    struct gs_ring *ring = &(*verifier)->ring;
    ask(loop, *verifier, set, fds);
    loop->counts.interest_calls++;
    int err;
    do
        err = gs_ring_enter(ring, VERIFIER_BATCH, GS_NEVER);
    while (!err && gs_ring_ready(ring) < VERIFIER_BATCH);
    for (struct io_uring_cqe *answer; (answer = gs_ring_first(ring)); gs_ring_advance(ring))
        take_answer(&loop->slots[answer->user_data], answer->res);
    if (err)
        close_ring(*verifier);
}
