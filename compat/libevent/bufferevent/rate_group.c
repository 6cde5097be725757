/* Groups of bufferevents, with a limit of the sum.
 *
 * Lock order: a bufferevent, then its group, then other bufferevents, but those only if they are
 * free: a member whose lock is not is paused or resumed later. */
#include "compat/libevent/bufferevent/rate.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#define MIN_SHARE 64

struct bufferevent_rate_limit_group {
    struct event_base *base;
    void *lock;
    struct ev_token_bucket_cfg cfg;
    struct gs_rate_bucket bucket;
    struct event refill;
    struct gs_rate *members; /* NULL, or one of the ring: the one to be resumed first */
    ev_ssize_t member_count;
    ev_ssize_t wanted_min_share, min_share; /* the second is at most the rate */
    uint64_t totals[GS_RATE_SIDES];
    bool is_paused[GS_RATE_SIDES];
    bool is_resume_unfinished[GS_RATE_SIDES]; /* a member was locked */
};

/* ---- Pausing and resuming all ---- */

static void pause_all(struct bufferevent_rate_limit_group *group, enum gs_rate_side side)
{
    group->is_paused[side] = true;
    group->is_resume_unfinished[side] = false;
    struct gs_rate *member = group->members;
    for (ev_ssize_t i = 0; i < group->member_count; i++, member = member->next) {
        if (!gs_ev_try_lock(member->bev->lock))
            continue; /* it is paused before it moves anything: gs_rate_group_share */
        gs_bev_pause(member->bev, gs_rate_direction(side), GS_BEV_PAUSE_GROUP);
        gs_bev_unlock(member->bev);
    }
}

/* Begin with another member each time: what is left may not suffice for all. */
static void resume_all(struct bufferevent_rate_limit_group *group, enum gs_rate_side side)
{
    group->is_paused[side] = false;
    group->is_resume_unfinished[side] = false;
    struct gs_rate *member = group->members;
    for (ev_ssize_t i = 0; i < group->member_count; i++, member = member->next) {
        if (gs_ev_try_lock(member->bev->lock)) {
            gs_bev_resume(member->bev, gs_rate_direction(side), GS_BEV_PAUSE_GROUP);
            gs_bev_unlock(member->bev);
        } else {
            group->is_resume_unfinished[side] = true;
        }
    }
    if (group->members)
        group->members = group->members->next;
}

static void on_refill(evutil_socket_t fd, short events, void *argument)
{
    (void)fd;
    (void)events;
    struct bufferevent_rate_limit_group *group = argument;
    gs_ev_lock(group->lock);
    gs_rate_bucket_refill(&group->bucket, &group->cfg, gs_rate_tick(group->base, &group->cfg));
    for (enum gs_rate_side side = 0; side < GS_RATE_SIDES; side++)
        if (group->is_resume_unfinished[side] ||
            (group->is_paused[side] && group->bucket.left[side] >= group->min_share))
            resume_all(group, side);
    gs_ev_unlock(group->lock);
}

/* ---- Life ---- */

static void limit_share(struct bufferevent_rate_limit_group *group)
{
    group->min_share = group->wanted_min_share;
    for (enum gs_rate_side side = 0; side < GS_RATE_SIDES; side++)
        if (group->min_share > group->cfg.rate[side])
            group->min_share = group->cfg.rate[side];
}

struct bufferevent_rate_limit_group *
bufferevent_rate_limit_group_new(struct event_base *base, const struct ev_token_bucket_cfg *cfg)
{
    struct bufferevent_rate_limit_group *group = gs_ev_calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->base = base;
    group->cfg = *cfg;
    group->wanted_min_share = MIN_SHARE;
    limit_share(group);
    gs_rate_bucket_init(&group->bucket, cfg, gs_rate_tick(base, cfg));
    event_assign(&group->refill, base, -1, EV_PERSIST, on_refill, group);
    if (gs_ev_locks_are_used() && !(group->lock = gs_ev_lock_new()))
        goto free_group;
    if (event_add(&group->refill, &cfg->tick) < 0)
        goto free_lock;
    return group;

free_lock:
    gs_ev_lock_free(group->lock);
free_group:
    gs_ev_free(group);
    return NULL;
}

void bufferevent_rate_limit_group_free(struct bufferevent_rate_limit_group *group)
{
    if (group->member_count)
        gs_ev_errx(1, "a rate limit group is freed that has members");
    event_del(&group->refill); /* and wait while it runs in another thread */
    gs_ev_lock_free(group->lock);
    gs_ev_free(group);
}

int bufferevent_rate_limit_group_set_cfg(struct bufferevent_rate_limit_group *group,
                                         const struct ev_token_bucket_cfg *cfg)
{
    if (!group || !cfg)
        return -1;
    gs_ev_lock(group->lock);
    bool has_same_tick = evutil_timercmp(&group->cfg.tick, &cfg->tick, ==);
    group->cfg = *cfg;
    gs_rate_bucket_clip(&group->bucket, cfg);
    limit_share(group);
    if (!has_same_tick) { /* the ticks have other numbers now */
        group->bucket.tick = gs_rate_tick(group->base, cfg);
        event_add(&group->refill, &cfg->tick);
    }
    gs_ev_unlock(group->lock);
    return 0;
}

int bufferevent_rate_limit_group_set_min_share(struct bufferevent_rate_limit_group *group,
                                               size_t share)
{
    if (share > EV_SSIZE_MAX)
        return -1;
    gs_ev_lock(group->lock);
    group->wanted_min_share = (ev_ssize_t)share;
    limit_share(group);
    gs_ev_unlock(group->lock);
    return 0;
}

/* ---- Members ---- */

static void insert(struct bufferevent_rate_limit_group *group, struct gs_rate *member)
{
    struct gs_rate *first = group->members;
    if (first) {
        member->next = first;
        member->previous = first->previous;
        first->previous->next = member;
        first->previous = member;
    } else {
        member->next = member->previous = member;
    }
    group->members = member;
    group->member_count++;
}

void gs_rate_group_leave(struct gs_rate *member)
{
    struct bufferevent_rate_limit_group *group = member->group;
    if (!group)
        return;
    gs_ev_lock(group->lock);
    member->previous->next = member->next;
    member->next->previous = member->previous;
    if (group->members == member)
        group->members = member->next == member ? NULL : member->next;
    group->member_count--;
    member->group = NULL;
    gs_ev_unlock(group->lock);
}

static void leave_and_resume(struct gs_rate *member)
{
    if (!member->group)
        return;
    gs_rate_group_leave(member);
    gs_bev_resume(member->bev, EV_READ, GS_BEV_PAUSE_GROUP);
    gs_bev_resume(member->bev, EV_WRITE, GS_BEV_PAUSE_GROUP);
}

static void join(struct gs_rate *member, struct bufferevent_rate_limit_group *group)
{
    bool is_paused[GS_RATE_SIDES];
    gs_ev_lock(group->lock);
    member->group = group;
    insert(group, member);
    for (enum gs_rate_side side = 0; side < GS_RATE_SIDES; side++)
        is_paused[side] = group->is_paused[side];
    gs_ev_unlock(group->lock);
    for (enum gs_rate_side side = 0; side < GS_RATE_SIDES; side++)
        if (is_paused[side])
            gs_bev_pause(member->bev, gs_rate_direction(side), GS_BEV_PAUSE_GROUP);
}

int bufferevent_add_to_rate_limit_group(struct bufferevent *bufev,
                                        struct bufferevent_rate_limit_group *g)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    if (!g)
        return bufferevent_remove_from_rate_limit_group(bufev);
    gs_bev_hold(bev);
    struct gs_rate *member = gs_rate_of(bev);
    if (member && member->group != g) {
        leave_and_resume(member);
        join(member, g);
    }
    gs_bev_release(bev);
    return member ? 0 : -1;
}

int bufferevent_remove_from_rate_limit_group(struct bufferevent *bufev)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_hold(bev);
    if (bev->rate)
        leave_and_resume(bev->rate);
    gs_bev_release(bev);
    return 0;
}

ev_ssize_t gs_rate_group_share(struct gs_rate *member, enum gs_rate_side side)
{
    struct bufferevent_rate_limit_group *group = member->group;
    ev_ssize_t share = 0;
    gs_ev_lock(group->lock);
    bool is_paused = group->is_paused[side];
    if (!is_paused) {
        share = group->bucket.left[side] / group->member_count;
        if (share < group->min_share)
            share = group->min_share;
    }
    gs_ev_unlock(group->lock);
    if (is_paused)
        gs_bev_pause(member->bev, gs_rate_direction(side), GS_BEV_PAUSE_GROUP);
    return share;
}

/* With the group's lock held. */
static void take(struct bufferevent_rate_limit_group *group, enum gs_rate_side side,
                 ev_ssize_t bytes)
{
    group->bucket.left[side] -= bytes;
    if (group->bucket.left[side] <= 0)
        pause_all(group, side);
    else if (group->is_paused[side])
        resume_all(group, side);
}

void gs_rate_group_count(struct bufferevent_rate_limit_group *group, enum gs_rate_side side,
                         ev_ssize_t bytes)
{
    gs_ev_lock(group->lock);
    group->totals[side] += (uint64_t)bytes;
    take(group, side, bytes);
    gs_ev_unlock(group->lock);
}

/* ---- Looking at groups, and changing them ---- */

static ev_ssize_t get_limit(struct bufferevent_rate_limit_group *group, enum gs_rate_side side)
{
    gs_ev_lock(group->lock);
    ev_ssize_t left = group->bucket.left[side];
    gs_ev_unlock(group->lock);
    return left;
}

ev_ssize_t bufferevent_rate_limit_group_get_read_limit(struct bufferevent_rate_limit_group *group)
{
    return get_limit(group, GS_RATE_READ);
}

ev_ssize_t bufferevent_rate_limit_group_get_write_limit(struct bufferevent_rate_limit_group *group)
{
    return get_limit(group, GS_RATE_WRITE);
}

static int decrement(struct bufferevent_rate_limit_group *group, enum gs_rate_side side,
                     ev_ssize_t bytes)
{
    gs_ev_lock(group->lock);
    take(group, side, bytes);
    gs_ev_unlock(group->lock);
    return 0;
}

int bufferevent_rate_limit_group_decrement_read(struct bufferevent_rate_limit_group *group,
                                                ev_ssize_t bytes)
{
    return decrement(group, GS_RATE_READ, bytes);
}

int bufferevent_rate_limit_group_decrement_write(struct bufferevent_rate_limit_group *group,
                                                 ev_ssize_t bytes)
{
    return decrement(group, GS_RATE_WRITE, bytes);
}

void bufferevent_rate_limit_group_get_totals(struct bufferevent_rate_limit_group *grp,
                                             ev_uint64_t *total_read_out,
                                             ev_uint64_t *total_written_out)
{
    gs_ev_lock(grp->lock);
    if (total_read_out)
        *total_read_out = grp->totals[GS_RATE_READ];
    if (total_written_out)
        *total_written_out = grp->totals[GS_RATE_WRITE];
    gs_ev_unlock(grp->lock);
}

void bufferevent_rate_limit_group_reset_totals(struct bufferevent_rate_limit_group *grp)
{
    gs_ev_lock(grp->lock);
    grp->totals[GS_RATE_READ] = grp->totals[GS_RATE_WRITE] = 0;
    gs_ev_unlock(grp->lock);
}
