/* Looking up host names with getaddrinfo, in another kernel thread. */
#ifndef GS_COMPAT_LIBEVENT_LOOKUP_H
#define GS_COMPAT_LIBEVENT_LOOKUP_H

#include <event2/event.h>
#include <event2/util.h>

struct gs_lookup_target {
    const char *host; /* copied */
    int family;
    int port;
};

/* The error of a lookup whose base is being freed. */
#define GS_LOOKUP_ABANDONED 1

/* error: EVUTIL_EAI_..., GS_LOOKUP_ABANDONED, or 0 and addresses, which end with the call. */
typedef void gs_lookup_fn(void *argument, int error, struct evutil_addrinfo *addresses);

/* fn is called once: at once if the host is a numeric address or the lookup cannot be started,
 * otherwise in the loop, which goes on until then, or when the base is freed. */
void gs_lookup_start(struct event_base *base, const struct gs_lookup_target *target,
                     gs_lookup_fn *fn, void *argument);

#endif
