/* A loop inside another. The outer one watches the descriptor of the inner one's set in the kernel;
 * what else the inner one waits for bounds the outer one's wait, and other threads find it asleep
 * meanwhile. */
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

/* Of an active one. Its descriptor is the inner loop's. */
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
    report(embed, gs_loop_step(embed->inner, 0));
}

void gs_embed_init(struct gs_embed *embed, struct gs_loop *loop, struct gs_loop *inner,
                   gs_embed_fn *callback)
{
    *embed = (struct gs_embed){.callback = callback, .inner = inner};
    gs_io_init(&embed->io, loop, on_ready);
    embed->watcher.kind = KIND_EMBED;
}

int gs_embed_start(struct gs_embed *embed)
{
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
    embed->set_number = embed->inner->set_number;
    gs_list_append(&loop->embeds, &embed->link);
    loop->special_count++;
    embed->inner->is_embedded = true;
    return 0;
}

void gs_embed_stop(struct gs_embed *embed)
{
    if (!embed->watcher.active)
        return;
    unlink_embed(embed);
    gs_io_stop(&embed->io);
}

/* The inner loop's set may have been opened anew, under whatever number. Where there is no memory
 * to watch that, the inner loop is given an iteration in each of the outer one's. */
static void follow(struct gs_embed *embed)
{
    struct gs_loop *loop = embed->watcher.loop;
    if (LIKELY(embed->set_number == embed->inner->set_number))
        return;
    int fd = descriptor_of(embed->inner);
    if ((unsigned)fd >= loop->slot_count && gs_loop_reserve_slot(loop, fd)) {
        gs_loop_pend(&embed->watcher, 0);
        return;
    }
    gs_io_stop(&embed->io);
    gs_io_set(&embed->io, fd, GS_READ);
    int err = gs_io_start(&embed->io);
    assert(!err);
    (void)err;
    embed->set_number = embed->inner->set_number;
}

uint64_t gs_loop_begin_embedded_waits(struct gs_loop *loop)
{
    uint64_t timeout_ns = GS_NEVER;
    GS_LIST_EACH(link, &loop->embeds)
    {
        struct gs_embed *embed = embed_of(link);
        struct gs_loop *inner = embed->inner;
        uint64_t inner_ns = gs_loop_begin_wait(inner, GS_NEVER);
        follow(embed);
        if (inner->poller->hand_over && inner->poller->hand_over(inner))
            gs_loop_pend(&embed->watcher, 0);
        if (inner_ns < timeout_ns)
            timeout_ns = inner_ns;
    }
    return timeout_ns;
}

void gs_loop_after_embedded_waits(struct gs_loop *loop)
{
    GS_LIST_EACH(link, &loop->embeds)
    {
        struct gs_embed *embed = embed_of(link);
        if (gs_loop_has_mail(embed->inner))
            gs_loop_pend(&embed->watcher, 0);
        gs_loop_after_wait(embed->inner);
    }
}

/* Whether it has something to do now, itself or by what is embedded in it. */
static bool is_due(struct gs_loop *loop)
{
    if (!gs_loop_wait_ns(loop, GS_NEVER))
        return true;
    GS_LIST_EACH(link, &loop->embeds)
    if (is_due(embed_of(link)->inner))
        return true;
    return false;
}

void gs_loop_collect_embeds(struct gs_loop *loop)
{
    GS_LIST_EACH(link, &loop->embeds)
    if (is_due(embed_of(link)->inner))
        gs_loop_pend(&embed_of(link)->watcher, 0);
}
