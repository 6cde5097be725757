/* Limits of the rate: token buckets, of a bufferevent or of a group.
 *
 * A bucket gets `rate` bytes each tick, up to `burst`. What passes is taken out, even if there was
 * less: the bucket is then below zero, and the direction is paused until it is above again. */
#ifndef GS_COMPAT_LIBEVENT_RATE_H
#define GS_COMPAT_LIBEVENT_RATE_H

#include "compat/libevent/bufferevent/bev.h"

#include <stdint.h>

/* Both directions have the same rules: what differs is indexed. */
enum gs_rate_side { GS_RATE_READ, GS_RATE_WRITE, GS_RATE_SIDES };

static inline short gs_rate_direction(enum gs_rate_side side)
{
    return side == GS_RATE_READ ? EV_READ : EV_WRITE;
}

struct ev_token_bucket_cfg {
    ev_ssize_t rate[GS_RATE_SIDES], burst[GS_RATE_SIDES];
    struct timeval tick;
    uint64_t tick_ms;
};

struct gs_rate_bucket {
    ev_ssize_t left[GS_RATE_SIDES];
    uint64_t tick; /* of the last refill */
};

/* The number of the current tick. */
uint64_t gs_rate_tick(struct event_base *base, const struct ev_token_bucket_cfg *cfg);
void gs_rate_bucket_init(struct gs_rate_bucket *bucket, const struct ev_token_bucket_cfg *cfg,
                         uint64_t tick);
/* The bucket is not fuller than these limits allow. */
void gs_rate_bucket_clip(struct gs_rate_bucket *bucket, const struct ev_token_bucket_cfg *cfg);
/* Add what is due since the last refill. */
void gs_rate_bucket_refill(struct gs_rate_bucket *bucket, const struct ev_token_bucket_cfg *cfg,
                           uint64_t tick);

/* The limits of one bufferevent; under its lock, the links under that of the group. */
struct gs_rate {
    struct gs_bev *bev;
    struct ev_token_bucket_cfg *cfg; /* NULL: only the group's */
    struct gs_rate_bucket bucket;
    struct event refill;
    bool has_refill; /* it was assigned */
    struct bufferevent_rate_limit_group *group;
    struct gs_rate *previous, *next; /* members of the group, as a ring */
};

/* Returns the one of the bufferevent, created if need be, or NULL. */
struct gs_rate *gs_rate_of(struct gs_bev *bev);

/* ---- Groups; with the lock of the bufferevent held ---- */

/* Returns how much the bufferevent may move as a member. Pauses it if the group is paused. */
ev_ssize_t gs_rate_group_share(struct gs_rate *member, enum gs_rate_side side);
void gs_rate_group_count(struct bufferevent_rate_limit_group *group, enum gs_rate_side side,
                         ev_ssize_t bytes);
/* Leaves the directions paused as they are. */
void gs_rate_group_leave(struct gs_rate *member);

#endif
