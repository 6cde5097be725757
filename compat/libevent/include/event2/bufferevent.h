/* Bufferevents: a stream of bytes with a buffer for input and one for output, which the loop fills
 * and empties, and callbacks for what happens. This is the interface of libevent 2.1.12; its manual
 * describes it in full. docs/libevent.md says what differs here.
 *
 *     struct bufferevent *bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
 *     bufferevent_setcb(bev, on_read, on_drained, on_event, argument);
 *     bufferevent_enable(bev, EV_READ | EV_WRITE);
 *     bufferevent_write(bev, "hello\n", 6);
 *
 * Functions that return int return 0, or -1 on failure, unless stated otherwise. */
#ifndef EVENT2_BUFFEREVENT_H_INCLUDED_
#define EVENT2_BUFFEREVENT_H_INCLUDED_

#include <event2/event-config.h>
#include <event2/util.h>
#include <event2/visibility.h>
#include <sys/time.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bufferevent;
struct evbuffer;
struct evdns_base;
struct event_base;
struct sockaddr;

/* ---- Callbacks ---- */

/* What an event callback receives: in which direction, and what has happened. */
#define BEV_EVENT_READING 0x01
#define BEV_EVENT_WRITING 0x02
#define BEV_EVENT_EOF 0x10
#define BEV_EVENT_ERROR 0x20
#define BEV_EVENT_TIMEOUT 0x40
#define BEV_EVENT_CONNECTED 0x80

/* There is input, at least the low mark; or the output is not more than its low mark. */
typedef void (*bufferevent_data_cb)(struct bufferevent *bev, void *ctx);
/* what: BEV_EVENT_...; of an error, errno has the number. */
typedef void (*bufferevent_event_cb)(struct bufferevent *bev, short what, void *ctx);

EVENT2_EXPORT_SYMBOL
void bufferevent_setcb(struct bufferevent *bufev, bufferevent_data_cb readcb,
                       bufferevent_data_cb writecb, bufferevent_event_cb eventcb, void *cbarg);
/* Outputs may be NULL. */
EVENT2_EXPORT_SYMBOL
void bufferevent_getcb(struct bufferevent *bufev, bufferevent_data_cb *readcb_ptr,
                       bufferevent_data_cb *writecb_ptr, bufferevent_event_cb *eventcb_ptr,
                       void **cbarg_ptr);

/* ---- Life ---- */

enum bufferevent_options {
    /* Freeing it closes the descriptor, or frees the underlying bufferevent. */
    BEV_OPT_CLOSE_ON_FREE = (1 << 0),
    /* It has a lock, if the program uses locks. */
    BEV_OPT_THREADSAFE = (1 << 1),
    /* Callbacks are called later in the loop, not where their reason is found. */
    BEV_OPT_DEFER_CALLBACKS = (1 << 2),
    /* Callbacks are called without the lock; only together with BEV_OPT_DEFER_CALLBACKS. */
    BEV_OPT_UNLOCK_CALLBACKS = (1 << 3)
};

/* fd: a non-blocking socket, or -1: it is set or made later. Writing is enabled, reading is not.
 * Returns NULL on failure. */
EVENT2_EXPORT_SYMBOL
struct bufferevent *bufferevent_socket_new(struct event_base *base, evutil_socket_t fd,
                                           int options);
/* No callback is called any more. What was not yet written is lost. The descriptor is closed by the
 * loop, when nothing uses the bufferevent any more. */
EVENT2_EXPORT_SYMBOL
void bufferevent_free(struct bufferevent *bufev);
EVENT2_EXPORT_SYMBOL
void bufferevent_incref(struct bufferevent *bufev);
/* Returns 1 if that was the last reference, else 0. */
EVENT2_EXPORT_SYMBOL
int bufferevent_decref(struct bufferevent *bufev);
EVENT2_EXPORT_SYMBOL
void bufferevent_lock(struct bufferevent *bufev);
EVENT2_EXPORT_SYMBOL
void bufferevent_unlock(struct bufferevent *bufev);

/* ---- Connecting a socket ---- */

/* The event callback gets BEV_EVENT_CONNECTED or BEV_EVENT_ERROR. Makes a socket if there is none.
 * NULL: the descriptor is connecting already. */
EVENT2_EXPORT_SYMBOL
int bufferevent_socket_connect(struct bufferevent *, const struct sockaddr *, int);
/* family: AF_INET, AF_INET6 or AF_UNSPEC. evdns_base: must be NULL; names are looked up with
 * getaddrinfo in another kernel thread, so that the loop goes on. */
EVENT2_EXPORT_SYMBOL
int bufferevent_socket_connect_hostname(struct bufferevent *, struct evdns_base *, int family,
                                        const char *hostname, int port);
/* Returns the error of the last lookup, for evutil_gai_strerror, or 0. */
EVENT2_EXPORT_SYMBOL
int bufferevent_socket_get_dns_error(struct bufferevent *bev);

/* ---- Properties ---- */

/* Sockets only. */
EVENT2_EXPORT_SYMBOL
int bufferevent_base_set(struct event_base *base, struct bufferevent *bufev);
EVENT2_EXPORT_SYMBOL
struct event_base *bufferevent_get_base(struct bufferevent *bev);
/* Sockets only. */
EVENT2_EXPORT_SYMBOL
int bufferevent_priority_set(struct bufferevent *bufev, int pri);
EVENT2_EXPORT_SYMBOL
int bufferevent_get_priority(const struct bufferevent *bufev);
/* Of a filter: those of what is below it. */
EVENT2_EXPORT_SYMBOL
int bufferevent_setfd(struct bufferevent *bufev, evutil_socket_t fd);
EVENT2_EXPORT_SYMBOL
evutil_socket_t bufferevent_getfd(struct bufferevent *bufev);
/* Returns NULL unless it is a filter. */
EVENT2_EXPORT_SYMBOL
struct bufferevent *bufferevent_get_underlying(struct bufferevent *bufev);

/* ---- Reading and writing ---- */

EVENT2_EXPORT_SYMBOL
int bufferevent_write(struct bufferevent *bufev, const void *data, size_t size);
/* Takes the contents of buf. */
EVENT2_EXPORT_SYMBOL
int bufferevent_write_buffer(struct bufferevent *bufev, struct evbuffer *buf);
/* Returns how many bytes were there. */
EVENT2_EXPORT_SYMBOL
size_t bufferevent_read(struct bufferevent *bufev, void *data, size_t size);
EVENT2_EXPORT_SYMBOL
int bufferevent_read_buffer(struct bufferevent *bufev, struct evbuffer *buf);
EVENT2_EXPORT_SYMBOL
struct evbuffer *bufferevent_get_input(struct bufferevent *bufev);
EVENT2_EXPORT_SYMBOL
struct evbuffer *bufferevent_get_output(struct bufferevent *bufev);

/* EV_READ, EV_WRITE or both. */
EVENT2_EXPORT_SYMBOL
int bufferevent_enable(struct bufferevent *bufev, short event);
EVENT2_EXPORT_SYMBOL
int bufferevent_disable(struct bufferevent *bufev, short event);
EVENT2_EXPORT_SYMBOL
short bufferevent_get_enabled(struct bufferevent *bufev);

/* How long it may try to read or write without success; NULL: for ever. Then that direction is
 * disabled, and the event callback gets BEV_EVENT_TIMEOUT. */
EVENT2_EXPORT_SYMBOL
int bufferevent_set_timeouts(struct bufferevent *bufev, const struct timeval *timeout_read,
                             const struct timeval *timeout_write);

/* Reading: the read callback waits for lowmark bytes, and at highmark reading pauses (0: never).
 * Writing: the write callback is called at lowmark bytes or less. */
EVENT2_EXPORT_SYMBOL
void bufferevent_setwatermark(struct bufferevent *bufev, short events, size_t lowmark,
                              size_t highmark);
/* events: EV_READ or EV_WRITE, else it fails. Outputs may be NULL. */
EVENT2_EXPORT_SYMBOL
int bufferevent_getwatermark(struct bufferevent *bufev, short events, size_t *lowmark,
                             size_t *highmark);

enum bufferevent_flush_mode {
    BEV_NORMAL = 0,
    /* All that is there. */
    BEV_FLUSH = 1,
    /* All that is there, and nothing will follow. */
    BEV_FINISHED = 2
};

/* Pairs and filters move data now. Returns -1 on failure, 1 if there was data, else 0. */
EVENT2_EXPORT_SYMBOL
int bufferevent_flush(struct bufferevent *bufev, short iotype, enum bufferevent_flush_mode mode);

enum bufferevent_trigger_options {
    BEV_TRIG_IGNORE_WATERMARKS = (1 << 16),
    BEV_TRIG_DEFER_CALLBACKS = BEV_OPT_DEFER_CALLBACKS
};

/* Have callbacks called as if their reason had occurred. */
EVENT2_EXPORT_SYMBOL
void bufferevent_trigger(struct bufferevent *bufev, short iotype, int options);
EVENT2_EXPORT_SYMBOL
void bufferevent_trigger_event(struct bufferevent *bufev, short what, int options);

/* ---- Filters: bufferevents that change what passes through another one ---- */

enum bufferevent_filter_result { BEV_OK = 0, BEV_NEED_MORE = 1, BEV_ERROR = 2 };

/* Move bytes from src to dst, not many more than dst_limit (-1: as many as there are). Returns
 * BEV_OK if something was moved, BEV_NEED_MORE if more of src is needed first, or BEV_ERROR. */
typedef enum bufferevent_filter_result (*bufferevent_filter_cb)(struct evbuffer *src,
                                                                struct evbuffer *dst,
                                                                ev_ssize_t dst_limit,
                                                                enum bufferevent_flush_mode mode,
                                                                void *ctx);

/* A filter may be NULL: bytes pass unchanged. Sets the callbacks of `underlying`. free_context is
 * called with ctx when the new bufferevent ends; NULL: nothing is. Returns NULL on failure. */
EVENT2_EXPORT_SYMBOL
struct bufferevent *bufferevent_filter_new(struct bufferevent *underlying,
                                           bufferevent_filter_cb input_filter,
                                           bufferevent_filter_cb output_filter, int options,
                                           void (*free_context)(void *), void *ctx);

/* ---- Pairs: what is written to one of them is read from the other ---- */

/* Their callbacks are always deferred. */
EVENT2_EXPORT_SYMBOL
int bufferevent_pair_new(struct event_base *base, int options, struct bufferevent *pair[2]);
/* Returns NULL if the other one was freed. */
EVENT2_EXPORT_SYMBOL
struct bufferevent *bufferevent_pair_get_partner(struct bufferevent *bev);

/* ---- Limits of the rate, for sockets ---- */

struct ev_token_bucket_cfg;
struct bufferevent_rate_limit_group;

#define EV_RATE_LIMIT_MAX EV_SSIZE_MAX

/* Bytes for each tick, and how many may pass in one at most. tick_len: NULL: a second; fractions of
 * milliseconds are ignored. Returns NULL on failure. It is shared: free it last. */
EVENT2_EXPORT_SYMBOL
struct ev_token_bucket_cfg *ev_token_bucket_cfg_new(size_t read_rate, size_t read_burst,
                                                    size_t write_rate, size_t write_burst,
                                                    const struct timeval *tick_len);
EVENT2_EXPORT_SYMBOL
void ev_token_bucket_cfg_free(struct ev_token_bucket_cfg *cfg);
/* NULL: no limit. */
EVENT2_EXPORT_SYMBOL
int bufferevent_set_rate_limit(struct bufferevent *bev, struct ev_token_bucket_cfg *cfg);

/* A group has a limit of the sum over its members. Returns NULL on failure. */
EVENT2_EXPORT_SYMBOL
struct bufferevent_rate_limit_group *
bufferevent_rate_limit_group_new(struct event_base *base, const struct ev_token_bucket_cfg *cfg);
EVENT2_EXPORT_SYMBOL
int bufferevent_rate_limit_group_set_cfg(struct bufferevent_rate_limit_group *,
                                         const struct ev_token_bucket_cfg *);
/* The least that a member is given at a time, when it is given anything; 64 at first. */
EVENT2_EXPORT_SYMBOL
int bufferevent_rate_limit_group_set_min_share(struct bufferevent_rate_limit_group *, size_t);
/* Only without members. */
EVENT2_EXPORT_SYMBOL
void bufferevent_rate_limit_group_free(struct bufferevent_rate_limit_group *);
/* It leaves the group in which it was. NULL: leave it only. */
EVENT2_EXPORT_SYMBOL
int bufferevent_add_to_rate_limit_group(struct bufferevent *bev,
                                        struct bufferevent_rate_limit_group *g);
EVENT2_EXPORT_SYMBOL
int bufferevent_remove_from_rate_limit_group(struct bufferevent *bev);

/* How much a single call reads or writes at most; 0: 16 KiB. */
EVENT2_EXPORT_SYMBOL
int bufferevent_set_max_single_read(struct bufferevent *bev, size_t size);
EVENT2_EXPORT_SYMBOL
int bufferevent_set_max_single_write(struct bufferevent *bev, size_t size);
EVENT2_EXPORT_SYMBOL
ev_ssize_t bufferevent_get_max_single_read(struct bufferevent *bev);
EVENT2_EXPORT_SYMBOL
ev_ssize_t bufferevent_get_max_single_write(struct bufferevent *bev);

/* What may pass before the next tick; EV_SSIZE_MAX without a limit. Less than 0 if more than that
 * has passed. */
EVENT2_EXPORT_SYMBOL
ev_ssize_t bufferevent_get_read_limit(struct bufferevent *bev);
EVENT2_EXPORT_SYMBOL
ev_ssize_t bufferevent_get_write_limit(struct bufferevent *bev);
/* The same with the limits of the group and of a single call. */
EVENT2_EXPORT_SYMBOL
ev_ssize_t bufferevent_get_max_to_read(struct bufferevent *bev);
EVENT2_EXPORT_SYMBOL
ev_ssize_t bufferevent_get_max_to_write(struct bufferevent *bev);
EVENT2_EXPORT_SYMBOL
const struct ev_token_bucket_cfg *bufferevent_get_token_bucket_cfg(const struct bufferevent *bev);
EVENT2_EXPORT_SYMBOL
ev_ssize_t bufferevent_rate_limit_group_get_read_limit(struct bufferevent_rate_limit_group *);
EVENT2_EXPORT_SYMBOL
ev_ssize_t bufferevent_rate_limit_group_get_write_limit(struct bufferevent_rate_limit_group *);

/* Count bytes that have passed otherwise; less than 0: give some back. The first two only with a
 * limit. */
EVENT2_EXPORT_SYMBOL
int bufferevent_decrement_read_limit(struct bufferevent *bev, ev_ssize_t decr);
EVENT2_EXPORT_SYMBOL
int bufferevent_decrement_write_limit(struct bufferevent *bev, ev_ssize_t decr);
EVENT2_EXPORT_SYMBOL
int bufferevent_rate_limit_group_decrement_read(struct bufferevent_rate_limit_group *, ev_ssize_t);
EVENT2_EXPORT_SYMBOL
int bufferevent_rate_limit_group_decrement_write(struct bufferevent_rate_limit_group *, ev_ssize_t);

/* What the members have read and written, since the start or the reset. Outputs may be NULL. */
EVENT2_EXPORT_SYMBOL
void bufferevent_rate_limit_group_get_totals(struct bufferevent_rate_limit_group *grp,
                                             ev_uint64_t *total_read_out,
                                             ev_uint64_t *total_written_out);
EVENT2_EXPORT_SYMBOL
void bufferevent_rate_limit_group_reset_totals(struct bufferevent_rate_limit_group *grp);

#ifdef __cplusplus
}
#endif

#endif
