/* A loop inside another. The outer loop watches the descriptor of the inner loop's poller. The
 * inner loop's timers bound the outer loop's wait, during which the inner loop is marked asleep, so
 * that other threads wake it. */
#include "loop/state.h"

#include <assert.h>
#include <errno.h>

static struct gs_embed *embed_of(struct gs_list *link)
{
    return gs_container_of(link, struct gs_embed, link);
}

static int descriptor_of(struct gs_loop *inner)
{
    return inner->poller->descriptor ? inner->poller->descriptor(inner) : -EOPNOTSUPP;
}

/* The embedding is active. Its descriptor belongs to the inner loop. */
static void unlink_embed(struct gs_embed *embed)
{
    gs_list_remove(&embed->link);
    embed->watcher.loop->special_count--;
    embed->inner->is_embedded = false;
}

static void report(struct gs_embed *embed, int result)
{
    if (result < 0)
        gs_embed_stop(embed);
    if (embed->callback)
        embed->callback(embed, result);
}

static void on_ready(struct gs_io *io, unsigned events)
{
    struct gs_embed *embed = gs_container_of(io, struct gs_embed, io);
    if (events & GS_FAILED) {
        unlink_embed(embed);
        report(embed, gs_io_error(io));
        return;
    }
    report(embed, gs_loop_run_once(embed->inner, 0));
}

void gs_embed_init(struct gs_embed *embed, struct gs_loop *loop, struct gs_loop *inner,
                   gs_embed_fn *callback)
{
    CHECKED_INIT(&embed->watcher);
    *embed = (struct gs_embed){.callback = callback, .inner = inner};
    gs_io_init(&embed->io, loop, on_ready);
    embed->watcher.kind = KIND_EMBED;
}

int gs_embed_start(struct gs_embed *embed)
{
    CHECKED_START(&embed->watcher, KIND_EMBED);
    struct gs_loop *loop = embed->watcher.loop;
    if (embed->watcher.active)
        return 0;
    if (embed->inner->is_embedded)
        return -EBUSY;
    int fd = descriptor_of(embed->inner);
    if (fd < 0)
        return fd;
    gs_io_set(&embed->io, fd, GS_READ);
    int err = gs_io_start(&embed->io);
    if (err)
        return err;
    embed->poller_generation = embed->inner->poller_generation;
    gs_list_append(&loop->embeds, &embed->link);
    loop->special_count++;
    embed->inner->is_embedded = true;
    return 0;
}

void gs_embed_stop(struct gs_embed *embed)
{
    CHECKED_STOP(&embed->watcher);
    if (!embed->watcher.active)
        return;
    unlink_embed(embed);
    gs_io_stop(&embed->io);
}

/* If the inner loop's poller was reopened, watch its new file. The number may be the same:
 * gs_io_set makes the outer loop verify it. If memory is exhausted, run an iteration of the inner
 * loop in each iteration of the outer one. */
static void rewatch_inner(struct gs_embed *embed)
{
    struct gs_loop *loop = embed->watcher.loop;
    if (LIKELY(embed->poller_generation == embed->inner->poller_generation))
        return;
    int fd = descriptor_of(embed->inner);
    if ((unsigned)fd >= loop->slot_count && gs_loop_reserve_slot(loop, fd)) {
        gs_loop_set_pending(&embed->watcher, 0);
        return;
    }
    gs_io_stop(&embed->io);
    gs_io_set(&embed->io, fd, GS_READ);
    int err = gs_io_start(&embed->io);
    assert(!err);
    (void)err;
    embed->poller_generation = embed->inner->poller_generation;
}

uint64_t gs_loop_before_embedded_waits(struct gs_loop *loop)
{
    uint64_t timeout_ns = GS_NEVER;
    GS_LIST_FOREACH (link, &loop->embeds) {
        struct gs_embed *embed = embed_of(link);
        struct gs_loop *inner = embed->inner;
        uint64_t inner_ns = gs_loop_before_wait(inner, GS_NEVER);
        rewatch_inner(embed);
        if (inner->poller->submit && inner->poller->submit(inner))
            gs_loop_set_pending(&embed->watcher, 0);
        if (inner_ns < timeout_ns)
            timeout_ns = inner_ns;
    }
    return timeout_ns;
}

void gs_loop_after_embedded_waits(struct gs_loop *loop)
{
    GS_LIST_FOREACH (link, &loop->embeds) {
        struct gs_embed *embed = embed_of(link);
        if (gs_loop_has_messages(embed->inner))
            gs_loop_set_pending(&embed->watcher, 0);
        gs_loop_after_wait(embed->inner);
    }
}

/* Whether the loop, or a loop embedded in it, has something to do now. */
static bool is_due(struct gs_loop *loop)
{
    if (!gs_loop_wait_ns(loop, GS_NEVER))
        return true;
    GS_LIST_FOREACH (link, &loop->embeds)
        if (is_due(embed_of(link)->inner))
            return true;
    return false;
}

void gs_loop_collect_embeds(struct gs_loop *loop)
{
    GS_LIST_FOREACH (link, &loop->embeds)
        if (is_due(embed_of(link)->inner))
            gs_loop_set_pending(&embed_of(link)->watcher, 0);
}
