/* Look-ups of names by user threads. */
#ifndef GS_THREAD_RESOLVE_H
#define GS_THREAD_RESOLVE_H

#include "base/look_up.h"

#include <stdint.h>

/* The name of gs_resolve. On success the caller releases the look-up. */
int gs_resolve_name(const char *node, const char *service, const struct addrinfo *hints,
                    uint64_t deadline_ns, struct look_up **ret_look_up);

#endif
