/* The fields of bufferevents, for programs that read them without the functions of bufferevent.h.
 * Programs only read them. */
#ifndef EVENT2_BUFFEREVENT_STRUCT_H_INCLUDED_
#define EVENT2_BUFFEREVENT_STRUCT_H_INCLUDED_

#include <event2/bufferevent.h>
#include <event2/event_struct.h>
#include <event2/util.h>
#include <sys/time.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct event_watermark {
    size_t low;
    size_t high;
};

struct bufferevent {
    struct event_base *ev_base;
    const struct bufferevent_ops *be_ops;
    /* Of a socket its readiness and timeouts, of others timeouts only. */
    struct event ev_read;
    struct event ev_write;
    struct evbuffer *input;
    struct evbuffer *output;
    struct event_watermark wm_read;
    struct event_watermark wm_write;
    bufferevent_data_cb readcb;
    bufferevent_data_cb writecb;
    bufferevent_event_cb errorcb;
    void *cbarg;
    struct timeval timeout_read;
    struct timeval timeout_write;
    short enabled;
};

#ifdef __cplusplus
}
#endif

#endif
