/* The limits of one bufferevent. */
#include "compat/libevent/bufferevent/rate.h"
#include "compat/libevent/event/callback.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <limits.h>

/* ---- Buckets ---- */

struct ev_token_bucket_cfg *ev_token_bucket_cfg_new(size_t read_rate, size_t read_burst,
                                                    size_t write_rate, size_t write_burst,
                                                    const struct timeval *tick_len)
{
    const struct timeval second = {1, 0};
    if (!tick_len)
        tick_len = &second;
    if (read_rate > read_burst || write_rate > write_burst || read_rate < 1 || write_rate < 1)
        return NULL;
    if (read_burst > EV_RATE_LIMIT_MAX || write_burst > EV_RATE_LIMIT_MAX)
        return NULL;
    uint64_t tick_ms = (uint64_t)tick_len->tv_sec * 1000 + (uint64_t)tick_len->tv_usec / 1000;
    if (!tick_ms)
        return NULL;
    struct ev_token_bucket_cfg *cfg = gs_ev_calloc(1, sizeof *cfg);
    if (!cfg)
        return NULL;
    cfg->rate[GS_RATE_READ] = (ev_ssize_t)read_rate;
    cfg->rate[GS_RATE_WRITE] = (ev_ssize_t)write_rate;
    cfg->burst[GS_RATE_READ] = (ev_ssize_t)read_burst;
    cfg->burst[GS_RATE_WRITE] = (ev_ssize_t)write_burst;
    cfg->tick = *tick_len;
    cfg->tick_ms = tick_ms;
    return cfg;
}

void ev_token_bucket_cfg_free(struct ev_token_bucket_cfg *cfg)
{
    gs_ev_free(cfg);
}

uint64_t gs_rate_tick(struct event_base *base, const struct ev_token_bucket_cfg *cfg)
{
    return gs_ev_base_now_ns(base) / 1000000 / cfg->tick_ms;
}

void gs_rate_bucket_init(struct gs_rate_bucket *bucket, const struct ev_token_bucket_cfg *cfg,
                         uint64_t tick)
{
    for (enum gs_rate_side side = 0; side < GS_RATE_SIDES; side++)
        bucket->left[side] = cfg->rate[side];
    bucket->tick = tick;
}

void gs_rate_bucket_clip(struct gs_rate_bucket *bucket, const struct ev_token_bucket_cfg *cfg)
{
    for (enum gs_rate_side side = 0; side < GS_RATE_SIDES; side++)
        if (bucket->left[side] > cfg->burst[side])
            bucket->left[side] = cfg->burst[side];
}

void gs_rate_bucket_refill(struct gs_rate_bucket *bucket, const struct ev_token_bucket_cfg *cfg,
                           uint64_t tick)
{
    uint64_t ticks = tick - bucket->tick;
    if (!ticks || ticks > INT_MAX)
        return;
    for (enum gs_rate_side side = 0; side < GS_RATE_SIDES; side++) {
        ev_ssize_t left = bucket->left[side];
        __int128 sum = left + (__int128)ticks * cfg->rate[side];
        bucket->left[side] = sum > cfg->burst[side] ? cfg->burst[side] : (ev_ssize_t)sum;
    }
    bucket->tick = tick;
}

static void refill(struct gs_rate *rate)
{
    gs_rate_bucket_refill(&rate->bucket, rate->cfg,
                          gs_rate_tick(rate->bev->open.ev_base, rate->cfg));
}

/* ---- Pausing and resuming ---- */

static unsigned char pauses(const struct gs_bev *bev, enum gs_rate_side side)
{
    return side == GS_RATE_READ ? bev->read_pauses : bev->write_pauses;
}

static void resume(struct gs_rate *rate, enum gs_rate_side side)
{
    gs_bev_resume(rate->bev, gs_rate_direction(side), GS_BEV_PAUSE_RATE);
}

static void pause_side(struct gs_rate *rate, enum gs_rate_side side)
{
    gs_bev_pause(rate->bev, gs_rate_direction(side), GS_BEV_PAUSE_RATE);
}

/* Pause or resume a direction after its bucket has changed. */
static int follow_bucket(struct gs_rate *rate, enum gs_rate_side side)
{
    if (rate->bucket.left[side] <= 0) {
        pause_side(rate, side);
        return event_add(&rate->refill, &rate->cfg->tick);
    }
    if (!(pauses(rate->bev, side) & GS_BEV_PAUSE_RATE))
        return 0;
    enum gs_rate_side other = side == GS_RATE_READ ? GS_RATE_WRITE : GS_RATE_READ;
    if (!(pauses(rate->bev, other) & GS_BEV_PAUSE_RATE))
        event_del(&rate->refill);
    resume(rate, side);
    return 0;
}

static void on_refill(evutil_socket_t fd, short events, void *argument)
{
    (void)fd;
    (void)events;
    struct gs_bev *bev = argument;
    gs_bev_hold(bev);
    struct gs_rate *rate = bev->rate;
    if (rate->cfg) {
        refill(rate);
        for (enum gs_rate_side side = 0; side < GS_RATE_SIDES; side++)
            if (pauses(bev, side) & GS_BEV_PAUSE_RATE && rate->bucket.left[side] > 0)
                resume(rate, side);
        if ((bev->read_pauses | bev->write_pauses) & GS_BEV_PAUSE_RATE)
            event_add(&rate->refill, &rate->cfg->tick);
    }
    gs_bev_release(bev);
}

/* ---- Setting ---- */

struct gs_rate *gs_rate_of(struct gs_bev *bev)
{
    if (!bev->rate) {
        bev->rate = gs_ev_calloc(1, sizeof *bev->rate);
        if (bev->rate)
            bev->rate->bev = bev;
    }
    return bev->rate;
}

static void remove_limit(struct gs_rate *rate)
{
    rate->cfg = NULL;
    resume(rate, GS_RATE_READ);
    resume(rate, GS_RATE_WRITE);
    if (rate->has_refill)
        event_del(&rate->refill);
}

static int set_limit(struct gs_rate *rate, struct ev_token_bucket_cfg *cfg)
{
    struct event_base *base = rate->bev->open.ev_base;
    bool had_limit = rate->cfg != NULL;
    if (rate->has_refill)
        event_del(&rate->refill);
    event_assign(&rate->refill, base, -1, EV_FINALIZE, on_refill, rate->bev);
    rate->has_refill = true;
    rate->cfg = cfg;
    rate->bucket.tick = gs_rate_tick(base, cfg);
    if (had_limit)
        gs_rate_bucket_clip(&rate->bucket, cfg);
    else
        gs_rate_bucket_init(&rate->bucket, cfg, rate->bucket.tick);
    int reading = follow_bucket(rate, GS_RATE_READ), writing = follow_bucket(rate, GS_RATE_WRITE);
    return reading < 0 || writing < 0 ? -1 : 0;
}

int bufferevent_set_rate_limit(struct bufferevent *bufev, struct ev_token_bucket_cfg *cfg)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_hold(bev);
    int result = 0;
    struct gs_rate *rate = cfg ? gs_rate_of(bev) : bev->rate;
    if (rate && !cfg)
        remove_limit(rate);
    else if (rate && rate->cfg != cfg)
        result = set_limit(rate, cfg);
    else if (cfg && !rate)
        result = -1;
    gs_bev_release(bev);
    return result;
}

void gs_bev_end_rate(struct gs_bev *bev, struct event_callback **ret_finalized)
{
    if (!bev->rate)
        return;
    gs_rate_group_leave(bev->rate);
    if (bev->rate->has_refill)
        *ret_finalized = &bev->rate->refill.ev_evcallback;
}

/* ---- Use ---- */

static ev_ssize_t side_max(struct gs_bev *bev, enum gs_rate_side side)
{
    size_t single = side == GS_RATE_READ ? bev->max_single_read : bev->max_single_write;
    ev_ssize_t max = (ev_ssize_t)single;
    struct gs_rate *rate = bev->rate;
    if (!rate)
        return max;
    if (rate->cfg) {
        refill(rate);
        max = rate->bucket.left[side];
    }
    if (rate->group) {
        ev_ssize_t share = gs_rate_group_share(rate, side);
        max = max < share ? max : share;
    }
    return max < 0 ? 0 : max;
}

static void count(struct gs_bev *bev, enum gs_rate_side side, ev_ssize_t bytes)
{
    struct gs_rate *rate = bev->rate;
    if (!rate)
        return;
    if (rate->cfg) {
        rate->bucket.left[side] -= bytes;
        (void)follow_bucket(rate, side);
    }
    if (rate->group)
        gs_rate_group_count(rate->group, side, bytes);
}

ev_ssize_t gs_bev_read_max(struct gs_bev *bev)
{
    return side_max(bev, GS_RATE_READ);
}

ev_ssize_t gs_bev_write_max(struct gs_bev *bev)
{
    return side_max(bev, GS_RATE_WRITE);
}

void gs_bev_count_read(struct gs_bev *bev, ev_ssize_t bytes)
{
    count(bev, GS_RATE_READ, bytes);
}

void gs_bev_count_written(struct gs_bev *bev, ev_ssize_t bytes)
{
    count(bev, GS_RATE_WRITE, bytes);
}

/* ---- Single calls ---- */

static int set_single(struct bufferevent *bufev, enum gs_rate_side side, size_t size)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    if (!size || size > EV_SSIZE_MAX)
        size = GS_BEV_SINGLE_MAX;
    gs_bev_lock(bev);
    *(side == GS_RATE_READ ? &bev->max_single_read : &bev->max_single_write) = size;
    gs_bev_unlock(bev);
    return 0;
}

int bufferevent_set_max_single_read(struct bufferevent *bufev, size_t size)
{
    return set_single(bufev, GS_RATE_READ, size);
}

int bufferevent_set_max_single_write(struct bufferevent *bufev, size_t size)
{
    return set_single(bufev, GS_RATE_WRITE, size);
}

static ev_ssize_t get_single(struct bufferevent *bufev, enum gs_rate_side side)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_lock(bev);
    size_t size = side == GS_RATE_READ ? bev->max_single_read : bev->max_single_write;
    gs_bev_unlock(bev);
    return (ev_ssize_t)size;
}

ev_ssize_t bufferevent_get_max_single_read(struct bufferevent *bufev)
{
    return get_single(bufev, GS_RATE_READ);
}

ev_ssize_t bufferevent_get_max_single_write(struct bufferevent *bufev)
{
    return get_single(bufev, GS_RATE_WRITE);
}

/* ---- Looking at limits, and changing buckets ---- */

static ev_ssize_t get_limit(struct bufferevent *bufev, enum gs_rate_side side)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    ev_ssize_t left = EV_SSIZE_MAX;
    gs_bev_lock(bev);
    if (bev->rate && bev->rate->cfg) {
        refill(bev->rate);
        left = bev->rate->bucket.left[side];
    }
    gs_bev_unlock(bev);
    return left;
}

ev_ssize_t bufferevent_get_read_limit(struct bufferevent *bufev)
{
    return get_limit(bufev, GS_RATE_READ);
}

ev_ssize_t bufferevent_get_write_limit(struct bufferevent *bufev)
{
    return get_limit(bufev, GS_RATE_WRITE);
}

static ev_ssize_t get_max(struct bufferevent *bufev, enum gs_rate_side side)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_lock(bev);
    ev_ssize_t max = side_max(bev, side);
    gs_bev_unlock(bev);
    return max;
}

ev_ssize_t bufferevent_get_max_to_read(struct bufferevent *bufev)
{
    return get_max(bufev, GS_RATE_READ);
}

ev_ssize_t bufferevent_get_max_to_write(struct bufferevent *bufev)
{
    return get_max(bufev, GS_RATE_WRITE);
}

const struct ev_token_bucket_cfg *bufferevent_get_token_bucket_cfg(const struct bufferevent *bufev)
{
    struct gs_bev *bev = (struct gs_bev *)bufev;
    gs_bev_lock(bev);
    const struct ev_token_bucket_cfg *cfg = bev->rate ? bev->rate->cfg : NULL;
    gs_bev_unlock(bev);
    return cfg;
}

static int decrement(struct bufferevent *bufev, enum gs_rate_side side, ev_ssize_t bytes)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_hold(bev);
    struct gs_rate *rate = bev->rate;
    if (!rate || !rate->cfg)
        gs_ev_errx(1, "the bufferevent has no rate limit");
    rate->bucket.left[side] -= bytes;
    int result = follow_bucket(rate, side);
    gs_bev_release(bev);
    return result;
}

int bufferevent_decrement_read_limit(struct bufferevent *bufev, ev_ssize_t decr)
{
    return decrement(bufev, GS_RATE_READ, decr);
}

int bufferevent_decrement_write_limit(struct bufferevent *bufev, ev_ssize_t decr)
{
    return decrement(bufev, GS_RATE_WRITE, decr);
}
