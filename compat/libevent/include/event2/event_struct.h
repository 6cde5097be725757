/* The storage of an event, for programs that have events in their own structures. Programs only
 * read the fields, if they must. The links are as the macros of sys/queue.h want them; this header
 * does not include that one, because programs have versions of their own. */
#ifndef EVENT2_EVENT_STRUCT_H_INCLUDED_
#define EVENT2_EVENT_STRUCT_H_INCLUDED_

#include <event2/event-config.h>
#include <event2/keyvalq_struct.h>
#include <event2/util.h>
#include <sys/time.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EVLIST_TIMEOUT 0x01
#define EVLIST_INSERTED 0x02
#define EVLIST_SIGNAL 0x04
#define EVLIST_ACTIVE 0x08
#define EVLIST_INTERNAL 0x10
#define EVLIST_ACTIVE_LATER 0x20
#define EVLIST_FINALIZING 0x40
#define EVLIST_INIT 0x80
#define EVLIST_ALL 0xff

struct event;
struct event_base;

/* What can be active: an event, or a callback of another part of the library. */
struct event_callback {
    struct {
        struct event_callback *tqe_next;
        struct event_callback **tqe_prev;
    } evcb_active_next;
    short evcb_flags;
    ev_uint8_t evcb_pri;
    ev_uint8_t evcb_closure;
    union {
        void (*evcb_callback)(evutil_socket_t, short, void *);
        void (*evcb_selfcb)(struct event_callback *, void *);
        void (*evcb_evfinalize)(struct event *, void *);
        void (*evcb_cbfinalize)(struct event_callback *, void *);
    } evcb_cb_union;
    void *evcb_arg;
};

struct event {
    struct event_callback ev_evcallback;
    struct event_base *ev_base;
    evutil_socket_t ev_fd;
    short ev_events;
    short ev_res;
    /* The other events of the descriptor or signal. */
    struct {
        struct event *le_next;
        struct event **le_prev;
    } ev_next;
    /* The place of the timeout among those of the base; its time, and the duration that a
     * persistent event has again each time, in the base's own units. */
    ev_uint32_t ev_timeout_index;
    /* The file of the descriptor, as the base numbers them (0: none), and when it was added. */
    ev_uint32_t ev_file;
    ev_uint32_t ev_added;
    ev_uint64_t ev_deadline;
    ev_uint64_t ev_interval;
    /* How often a signal was caught, and where the loop counts its calls down. */
    short ev_ncalls;
    short *ev_pncalls;
};

struct event_list {
    struct event *tqh_first;
    struct event **tqh_last;
};

struct event_dlist {
    struct event *lh_first;
};

#ifdef __cplusplus
}
#endif

#endif
