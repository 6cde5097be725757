/* Pairs: the output of each is the input of the other. They share one lock. */
#include "compat/libevent/bufferevent/bev.h"
#include "compat/libevent/event/memory.h"

struct pair {
    struct gs_bev bev;
    struct pair *partner; /* NULL once one of them has ended */
};

static struct pair *pair_of(struct gs_bev *bev)
{
    return (struct pair *)bev;
}

static bool can_move(const struct gs_bev *from, const struct gs_bev *to)
{
    return from->open.enabled & EV_WRITE && to->open.enabled & EV_READ && !to->read_pauses &&
           evbuffer_get_length(from->open.output) > 0;
}

/* Returns how many bytes the receiver takes. */
static size_t wanted(const struct gs_bev *from, const struct gs_bev *to, bool ignores_mark)
{
    size_t waiting = evbuffer_get_length(from->open.output);
    size_t high = to->open.wm_read.high, length = evbuffer_get_length(to->open.input);
    if (!high || (ignores_mark && length >= high))
        return waiting;
    if (length >= high)
        return 0;
    return waiting < high - length ? waiting : high - length;
}

static void restart_timers(struct gs_bev *to)
{
    gs_bev_start_timer(&to->open.ev_read, &to->open.timeout_read);
    if (evbuffer_get_length(to->open.output))
        gs_bev_start_timer(&to->open.ev_write, &to->open.timeout_write);
    else
        event_del(&to->open.ev_write);
}

static void move(struct gs_bev *from, struct gs_bev *to, bool ignores_mark)
{
    size_t high = to->open.wm_read.high;
    if (high && !ignores_mark && evbuffer_get_length(to->open.input) >= high)
        return;
    evbuffer_unfreeze(from->open.output, 1);
    evbuffer_unfreeze(to->open.input, 0);
    size_t n = wanted(from, to, ignores_mark);
    evbuffer_remove_buffer(from->open.output, to->open.input, n);
    if (n)
        restart_timers(to);
    gs_bev_trigger(to, EV_READ, 0);
    gs_bev_trigger(from, EV_WRITE, 0);
    evbuffer_freeze(from->open.output, 1);
    evbuffer_freeze(to->open.input, 0);
}

static void on_output_changed(struct evbuffer *output, const struct evbuffer_cb_info *info,
                              void *argument)
{
    (void)output;
    struct pair *pair = argument, *partner = pair->partner;
    if (info->n_added <= info->n_deleted || !partner)
        return;
    gs_bev_hold(&pair->bev);
    gs_bev_hold(&partner->bev);
    if (can_move(&pair->bev, &partner->bev))
        move(&pair->bev, &partner->bev, false);
    gs_bev_release(&partner->bev);
    gs_bev_release(&pair->bev);
}

static int enable(struct gs_bev *bev, short events)
{
    struct pair *partner = pair_of(bev)->partner;
    if (events & EV_READ)
        gs_bev_start_timer(&bev->open.ev_read, &bev->open.timeout_read);
    if (events & EV_WRITE && evbuffer_get_length(bev->open.output))
        gs_bev_start_timer(&bev->open.ev_write, &bev->open.timeout_write);
    if (!partner)
        return 0;
    gs_bev_hold(&partner->bev);
    if (events & EV_READ && can_move(&partner->bev, bev))
        move(&partner->bev, bev, false);
    if (events & EV_WRITE && can_move(bev, &partner->bev))
        move(bev, &partner->bev, false);
    gs_bev_release(&partner->bev);
    return 0;
}

static int disable(struct gs_bev *bev, short events)
{
    if (events & EV_READ)
        event_del(&bev->open.ev_read);
    if (events & EV_WRITE)
        event_del(&bev->open.ev_write);
    return 0;
}

static int flush(struct gs_bev *bev, short events, enum bufferevent_flush_mode mode)
{
    struct pair *partner = pair_of(bev)->partner;
    if (!partner)
        return -1;
    if (mode == BEV_NORMAL)
        return 0;
    gs_bev_hold(&partner->bev);
    if (events & EV_READ)
        move(&partner->bev, bev, true);
    if (events & EV_WRITE)
        move(bev, &partner->bev, true);
    if (mode == BEV_FINISHED) {
        short what = BEV_EVENT_EOF;
        if (events & EV_READ)
            what |= BEV_EVENT_WRITING;
        if (events & EV_WRITE)
            what |= BEV_EVENT_READING;
        gs_bev_report(&partner->bev, what, 0);
    }
    gs_bev_release(&partner->bev);
    return 0;
}

static void unlink_partner(struct gs_bev *bev)
{
    struct pair *pair = pair_of(bev);
    if (pair->partner)
        pair->partner->partner = NULL;
    pair->partner = NULL;
}

const struct bufferevent_ops gs_bev_pair_ops = {
    .enable = enable,
    .disable = disable,
    .adjust_timeouts = gs_bev_adjust_timers,
    .flush = flush,
    .unlink = unlink_partner,
};

static struct pair *new_half(struct event_base *base, int options)
{
    struct pair *pair = gs_ev_calloc(1, sizeof *pair);
    if (!pair)
        return NULL;
    if (gs_bev_init(&pair->bev, base, &gs_bev_pair_ops, NULL, options) < 0) {
        gs_ev_free(pair);
        return NULL;
    }
    gs_bev_init_timers(&pair->bev);
    evbuffer_freeze(pair->bev.open.input, 0);
    evbuffer_freeze(pair->bev.open.output, 1);
    if (!evbuffer_add_cb(pair->bev.open.output, on_output_changed, pair)) {
        bufferevent_free(&pair->bev.open);
        return NULL;
    }
    return pair;
}

int bufferevent_pair_new(struct event_base *base, int options, struct bufferevent *pair[2])
{
    options |= BEV_OPT_DEFER_CALLBACKS;
    struct pair *first = new_half(base, options);
    if (!first)
        return -1;
    struct pair *second = new_half(base, options & ~BEV_OPT_THREADSAFE);
    if (!second) {
        bufferevent_free(&first->bev.open);
        return -1;
    }
    if (options & BEV_OPT_THREADSAFE)
        (void)gs_bev_share_lock(&second->bev, &first->bev);
    first->partner = second;
    second->partner = first;
    pair[0] = &first->bev.open;
    pair[1] = &second->bev.open;
    return 0;
}

struct bufferevent *bufferevent_pair_get_partner(struct bufferevent *bufev)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    if (bufev->be_ops != &gs_bev_pair_ops)
        return NULL;
    gs_bev_lock(bev);
    struct pair *partner = pair_of(bev)->partner;
    gs_bev_unlock(bev);
    return partner ? &partner->bev.open : NULL;
}
