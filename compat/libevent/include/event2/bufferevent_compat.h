/* Bufferevents as libevent 1.4 had them; new programs use bufferevent.h. */
#ifndef EVENT2_BUFFEREVENT_COMPAT_H_INCLUDED_
#define EVENT2_BUFFEREVENT_COMPAT_H_INCLUDED_

#include <event2/bufferevent.h>
#include <event2/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

#define evbuffercb bufferevent_data_cb
#define everrorcb bufferevent_event_cb

/* On the base that was created last with event_init; bufferevent_base_set sets another one. Returns
 * NULL on failure. */
EVENT2_EXPORT_SYMBOL
struct bufferevent *bufferevent_new(evutil_socket_t fd, evbuffercb readcb, evbuffercb writecb,
                                    everrorcb errorcb, void *cbarg);
/* In seconds; 0: none. */
EVENT2_EXPORT_SYMBOL
void bufferevent_settimeout(struct bufferevent *bufev, int timeout_read, int timeout_write);

#define EVBUFFER_READ BEV_EVENT_READING
#define EVBUFFER_WRITE BEV_EVENT_WRITING
#define EVBUFFER_EOF BEV_EVENT_EOF
#define EVBUFFER_ERROR BEV_EVENT_ERROR
#define EVBUFFER_TIMEOUT BEV_EVENT_TIMEOUT

#define EVBUFFER_INPUT(x) bufferevent_get_input(x)
#define EVBUFFER_OUTPUT(x) bufferevent_get_output(x)

#ifdef __cplusplus
}
#endif

#endif
