/* Connection listeners: a listening socket whose connections are accepted and passed to a callback.
 * This is the interface of libevent 2.1.12; its manual describes it in full. docs/libevent.md says
 * what differs here.
 *
 *     listener = evconnlistener_new_bind(base, on_accept, argument,
 *                                        LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, -1,
 *                                        (struct sockaddr *)&address, sizeof address);
 */
#ifndef EVENT2_LISTENER_H_INCLUDED_
#define EVENT2_LISTENER_H_INCLUDED_

#include <event2/event.h>
#include <event2/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evconnlistener;
struct sockaddr;

/* The callback owns the new descriptor. */
typedef void (*evconnlistener_cb)(struct evconnlistener *, evutil_socket_t fd,
                                  struct sockaddr *address, int socklen, void *);
/* accept has failed; errno has the number. */
typedef void (*evconnlistener_errorcb)(struct evconnlistener *, void *);

/* New descriptors are blocking. */
#define LEV_OPT_LEAVE_SOCKETS_BLOCKING (1u << 0)
/* Freeing the listener closes its descriptor. */
#define LEV_OPT_CLOSE_ON_FREE (1u << 1)
/* New descriptors, and the one of evconnlistener_new_bind, end with an exec. */
#define LEV_OPT_CLOSE_ON_EXEC (1u << 2)
/* The address may have been used until shortly before. */
#define LEV_OPT_REUSEABLE (1u << 3)
/* It has a lock, if the program uses locks. */
#define LEV_OPT_THREADSAFE (1u << 4)
/* It is not enabled yet. */
#define LEV_OPT_DISABLED (1u << 5)
/* Connections are accepted only when their first bytes are there. */
#define LEV_OPT_DEFERRED_ACCEPT (1u << 6)
/* Others may listen at the same address. */
#define LEV_OPT_REUSEABLE_PORT (1u << 7)
/* An IPv6 socket does not accept connections over IPv4. */
#define LEV_OPT_BIND_IPV6ONLY (1u << 8)

/* cb: NULL: it accepts nothing until it has one. backlog: less than 0: a default; 0: the socket
 * listens already. fd: non-blocking, with its address. Returns NULL on failure. */
EVENT2_EXPORT_SYMBOL
struct evconnlistener *evconnlistener_new(struct event_base *base, evconnlistener_cb cb, void *ptr,
                                          unsigned flags, int backlog, evutil_socket_t fd);
/* Makes the socket; backlog must not be 0. */
EVENT2_EXPORT_SYMBOL
struct evconnlistener *evconnlistener_new_bind(struct event_base *base, evconnlistener_cb cb,
                                               void *ptr, unsigned flags, int backlog,
                                               const struct sockaddr *sa, int socklen);
EVENT2_EXPORT_SYMBOL
void evconnlistener_free(struct evconnlistener *lev);
/* These return 0, or -1. */
EVENT2_EXPORT_SYMBOL
int evconnlistener_enable(struct evconnlistener *lev);
EVENT2_EXPORT_SYMBOL
int evconnlistener_disable(struct evconnlistener *lev);
EVENT2_EXPORT_SYMBOL
struct event_base *evconnlistener_get_base(struct evconnlistener *lev);
EVENT2_EXPORT_SYMBOL
evutil_socket_t evconnlistener_get_fd(struct evconnlistener *lev);
EVENT2_EXPORT_SYMBOL
void evconnlistener_set_cb(struct evconnlistener *lev, evconnlistener_cb cb, void *arg);
/* Its argument is that of the callback. */
EVENT2_EXPORT_SYMBOL
void evconnlistener_set_error_cb(struct evconnlistener *lev, evconnlistener_errorcb errorcb);

#ifdef __cplusplus
}
#endif

#endif
