/* Bufferevents from within: what all kinds share, and what a kind adds.
 *
 *     program  setters, callbacks           settings.c, deliver.c
 *     kinds    socket.c, pair.c, filter.c   through struct bufferevent_ops
 *     limits   rate.c, rate_group.c         pause reading and writing
 *     life     life.c                       references, locks, the end
 *
 * Invariants:
 *   1. `references` is at least 1 until gs_bev_release has ended the bufferevent; it is counted
 *      under the lock. A deferred callback and a lookup under way hold a reference each.
 *   2. A direction moves bytes only if it is enabled and nothing pauses it. The kind receives
 *      each change: enable, disable.
 *   3. Of a socket or a pair, the back of the input and the front of the output are frozen, except
 *      while the kind itself moves bytes there, and after a descriptor was set until it does.
 *   4. Nothing is freed before the loop has left all callbacks of the bufferevent.
 */
#ifndef GS_COMPAT_LIBEVENT_BEV_H
#define GS_COMPAT_LIBEVENT_BEV_H

#include "compat/libevent/event/lock.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_struct.h>
#include <event2/event.h>
#include <stdbool.h>

/* Why a direction is paused, as bits. */
enum gs_bev_pause {
    GS_BEV_PAUSE_MARK = 1,    /* the input is at its high mark */
    GS_BEV_PAUSE_RATE = 2,    /* its own rate limit */
    GS_BEV_PAUSE_GROUP = 4,   /* the rate limit of its group */
    GS_BEV_PAUSE_LOOKUP = 8,  /* a host name is being looked up */
    GS_BEV_PAUSE_FILTER = 16, /* the filter above it does not want input */
};

#define GS_BEV_SINGLE_MAX 16384 /* what a call reads or writes, by default */

/* What is known of the descriptor of a socket. */
enum gs_bev_output {
    GS_BEV_OUTPUT_UNKNOWN,
    GS_BEV_OUTPUT_BLOCKING, /* a write might block, so it waits until it is writable */
    GS_BEV_OUTPUT_WAITS,    /* it did not take everything, or not yet */
    GS_BEV_OUTPUT_IS_READY,
};

struct gs_bev;
struct gs_rate;

/* A kind of bufferevents. All are called with the lock held; only `enable` and `disable` must be
 * there. int: 0 or -1. */
struct bufferevent_ops {
    int (*enable)(struct gs_bev *bev, short events);
    int (*disable)(struct gs_bev *bev, short events);
    int (*adjust_timeouts)(struct gs_bev *bev);
    /* Returns what bufferevent_flush does. */
    int (*flush)(struct gs_bev *bev, short events, enum bufferevent_flush_mode mode);
    /* The last reference is gone. */
    void (*unlink)(struct gs_bev *bev);
    /* In the loop; the bufferevent is freed next. */
    void (*destroy)(struct gs_bev *bev);
};

extern const struct bufferevent_ops gs_bev_socket_ops, gs_bev_pair_ops, gs_bev_filter_ops;

/* A lock that several bufferevents share: both of a pair, a filter and what is below it. */
struct gs_bev_lock {
    void *lock;
    unsigned users; /* under the lock */
};

struct gs_bev {
    struct bufferevent open; /* what programs see; the first member */
    struct event_callback deferred;
    struct gs_bev_lock *shared_lock;
    void *lock; /* the one in shared_lock; NULL: none */
    struct gs_bev *underlying;
    struct evbuffer_cb_entry *mark_entry; /* on the input, since there was a high mark */
    struct gs_rate *rate;
    size_t max_single_read, max_single_write;
    unsigned references;
    int options;
    int dns_error;
    int pending_error; /* errno of the pending event */
    short pending_events;
    bool is_read_pending, is_write_pending;
    bool is_connecting, is_refused;
    bool is_unlinked; /* it has ended */
    enum gs_bev_output output_state;
    unsigned char read_pauses, write_pauses;
};

static inline struct gs_bev *gs_bev_of(struct bufferevent *bufev)
{
    return (struct gs_bev *)bufev;
}

/* ---- Life ---- */

/* Set up what all kinds share, in zeroed memory of gs_ev_calloc. underlying: of a filter, else
 * NULL; `bev` then has a reference to it. Returns 0, or -1: only the memory is left to free. */
int gs_bev_init(struct gs_bev *bev, struct event_base *base, const struct bufferevent_ops *ops,
                struct gs_bev *underlying, int options);

/* Give it the lock of `other`, or its underlying one's, or a new one. Returns 0 or -1. */
int gs_bev_share_lock(struct gs_bev *bev, struct gs_bev *other);

static inline void gs_bev_lock(struct gs_bev *bev)
{
    gs_ev_lock(bev->lock);
}

static inline void gs_bev_unlock(struct gs_bev *bev)
{
    gs_ev_unlock(bev->lock);
}

/* Lock it and take a reference. */
static inline void gs_bev_hold(struct gs_bev *bev)
{
    gs_bev_lock(bev);
    bev->references++;
}

/* Release a reference, and unlock. Returns whether it was the last one. */
static inline bool gs_bev_release(struct gs_bev *bev);
bool gs_bev_end(struct gs_bev *bev);
static inline bool gs_bev_release(struct gs_bev *bev)
{
    if (__builtin_expect(bev->references == 1, 0))
        return gs_bev_end(bev);
    bev->references--;
    gs_bev_unlock(bev);
    return false;
}

/* ---- Callbacks of the program; with the lock held and a reference ---- */

/* options: BEV_TRIG_DEFER_CALLBACKS, BEV_TRIG_IGNORE_WATERMARKS. */
void gs_bev_trigger(struct gs_bev *bev, short events, int options);
void gs_bev_report(struct gs_bev *bev, short what, int options);
void gs_bev_init_deferred(struct gs_bev *bev);

/* ---- Pausing; with the lock held ---- */

void gs_bev_pause(struct gs_bev *bev, short direction, enum gs_bev_pause reason);
void gs_bev_resume(struct gs_bev *bev, short direction, enum gs_bev_pause reason);

/* ---- Timeouts, for kinds without descriptors ---- */

/* Make ev_read and ev_write timers. */
void gs_bev_init_timers(struct gs_bev *bev);
int gs_bev_adjust_timers(struct gs_bev *bev);
/* Restart one if there is such a timeout, or stop it. */
void gs_bev_start_timer(struct event *timer, const struct timeval *timeout);

/* event_add with the timeout, or without one if it is zero. */
int gs_bev_add_event(struct event *event, const struct timeval *timeout);

/* ---- Rate limits ---- */

/* How many bytes may be read or written now. */
ev_ssize_t gs_bev_read_max(struct gs_bev *bev);
ev_ssize_t gs_bev_write_max(struct gs_bev *bev);
/* They were. */
void gs_bev_count_read(struct gs_bev *bev, ev_ssize_t bytes);
void gs_bev_count_written(struct gs_bev *bev, ev_ssize_t bytes);
/* Leave the group and stop the timer; `finalized`: a callback that must be finalized with those of
 * the bufferevent, or NULL. Then free what is left. */
void gs_bev_end_rate(struct gs_bev *bev, struct event_callback **ret_finalized);

/* ---- Sockets ---- */

/* fd: -1: none. */
int gs_bev_socket_set_fd(struct gs_bev *bev, int fd);
int gs_bev_socket_connect(struct gs_bev *bev, const struct sockaddr *address, int length);

#endif
