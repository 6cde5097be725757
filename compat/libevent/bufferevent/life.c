/* The life of a bufferevent: references, locks, the end. */
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/bufferevent/bev.h"
#include "compat/libevent/event/callback.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

static struct gs_bev_lock *new_lock(void)
{
    struct gs_bev_lock *shared = gs_ev_calloc(1, sizeof *shared);
    if (!shared)
        return NULL;
    shared->lock = gs_ev_lock_new();
    if (!shared->lock) {
        gs_ev_free(shared);
        return NULL;
    }
    return shared;
}

static void use_lock(struct gs_bev *bev, struct gs_bev_lock *shared)
{
    gs_ev_lock(shared->lock);
    shared->users++;
    bev->shared_lock = shared;
    bev->lock = shared->lock;
    evbuffer_enable_locking(bev->open.input, shared->lock);
    evbuffer_enable_locking(bev->open.output, shared->lock);
    gs_ev_unlock(shared->lock);
}

int gs_bev_share_lock(struct gs_bev *bev, struct gs_bev *other)
{
    if (bev->lock)
        return -1;
    struct gs_bev *owner = other ? other : bev->underlying;
    struct gs_bev_lock *shared = owner ? owner->shared_lock : NULL;
    if (!shared)
        shared = new_lock();
    if (!shared)
        return -1;
    use_lock(bev, shared);
    for (struct gs_bev *below = bev->underlying; below && !below->lock; below = below->underlying)
        use_lock(below, shared);
    return 0;
}

static void release_lock(struct gs_bev_lock *shared)
{
    if (!shared)
        return;
    gs_ev_lock(shared->lock);
    bool is_last = --shared->users == 0;
    gs_ev_unlock(shared->lock);
    if (is_last) {
        gs_ev_lock_free(shared->lock);
        gs_ev_free(shared);
    }
}

/* A deferred callback of one of the buffers keeps the bufferevent. */
static void hold_parent(void *object)
{
    struct gs_bev *bev = object;
    gs_bev_hold(bev);
    gs_bev_unlock(bev);
}

static void release_parent(void *object)
{
    struct gs_bev *bev = object;
    gs_bev_lock(bev);
    gs_bev_release(bev);
}

static const struct gs_ev_buffer_parent parent = {hold_parent, release_parent};

static void free_buffers(struct gs_bev *bev)
{
    struct evbuffer *buffers[] = {bev->open.input, bev->open.output};
    for (int i = 0; i < 2; i++) {
        if (!buffers[i])
            continue;
        gs_ev_buffer_set_parent(buffers[i], NULL, NULL);
        evbuffer_free(buffers[i]);
    }
}

int gs_bev_init(struct gs_bev *bev, struct event_base *base, const struct bufferevent_ops *ops,
                struct gs_bev *underlying, int options)
{
    const int unlocked = BEV_OPT_DEFER_CALLBACKS | BEV_OPT_UNLOCK_CALLBACKS;
    if ((options & unlocked) == BEV_OPT_UNLOCK_CALLBACKS) {
        gs_ev_warnx("UNLOCK_CALLBACKS requires DEFER_CALLBACKS");
        return -1;
    }
    bev->open.ev_base = base;
    bev->open.be_ops = ops;
    bev->open.enabled = EV_WRITE;
    bev->references = 1;
    bev->options = options;
    bev->underlying = underlying;
    bev->max_single_read = bev->max_single_write = GS_BEV_SINGLE_MAX;
    bev->open.input = evbuffer_new();
    bev->open.output = evbuffer_new();
    if (!bev->open.input || !bev->open.output)
        goto free_buffers;
    gs_ev_buffer_set_parent(bev->open.input, &parent, bev);
    gs_ev_buffer_set_parent(bev->open.output, &parent, bev);
    if (options & BEV_OPT_THREADSAFE && gs_bev_share_lock(bev, NULL))
        goto free_buffers;
    gs_bev_init_deferred(bev);
    if (underlying) {
        gs_bev_hold(underlying);
        gs_bev_unlock(underlying);
    }
    return 0;

free_buffers:
    free_buffers(bev);
    return -1;
}

/* In the loop, when no callback of the bufferevent runs any more. */
static void on_finalized(struct event_callback *callback, void *argument)
{
    (void)callback;
    struct gs_bev *bev = argument, *underlying = bev->underlying;
    gs_bev_lock(bev);
    if (bev->open.be_ops->destroy)
        bev->open.be_ops->destroy(bev);
    free_buffers(bev);
    gs_bev_unlock(bev);
    release_lock(bev->shared_lock);
    gs_ev_free(bev->rate);
    gs_ev_free(bev);
    if (underlying) {
        gs_bev_lock(underlying);
        gs_bev_release(underlying);
    }
}

/* A callback that was waiting for the lock when it ended takes and releases a reference again. */
bool gs_bev_end(struct gs_bev *bev)
{
    if (!bev->is_unlinked && bev->open.be_ops->unlink)
        bev->open.be_ops->unlink(bev);
    bev->is_unlinked = true;
    bev->references = 0;
    struct event_callback *callbacks[4] = {
        &bev->open.ev_read.ev_evcallback,
        &bev->open.ev_write.ev_evcallback,
        &bev->deferred,
    };
    gs_bev_end_rate(bev, &callbacks[3]);
    int count = callbacks[3] ? 4 : 3;
    gs_ev_callbacks_finalize(bev->open.ev_base, callbacks, count, on_finalized);
    gs_bev_unlock(bev);
    return true;
}

void bufferevent_free(struct bufferevent *bufev)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_lock(bev);
    bufferevent_setcb(bufev, NULL, NULL, NULL, NULL);
    gs_bev_release(bev);
}

void bufferevent_incref(struct bufferevent *bufev)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_hold(bev);
    gs_bev_unlock(bev);
}

int bufferevent_decref(struct bufferevent *bufev)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_lock(bev);
    return gs_bev_release(bev);
}

void bufferevent_lock(struct bufferevent *bufev)
{
    gs_bev_lock(gs_bev_of(bufev));
}

void bufferevent_unlock(struct bufferevent *bufev)
{
    gs_bev_unlock(gs_bev_of(bufev));
}
