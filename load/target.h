/* What is asked for: the server's address, and for each URL the bytes of the request. Read-only
 * once the run begins. */
#ifndef GS_LOAD_TARGET_H
#define GS_LOAD_TARGET_H

#include "load/addresses.h"
#include "load/settings.h"

struct load_request {
    char *bytes;
    size_t length;
    char *last_bytes; /* the same, for a connection's last request: it says so */
    size_t last_length;
};

struct load_target {
    struct load_addresses addresses;
    size_t request_count;
    struct load_request *requests;
};

/* Returns 0 or, after a line on stderr, -EINVAL (wrong URLs), -EHOSTUNREACH (an unknown host) or
 * -ENOMEM. */
GS_MUST_CHECK int gs_load_target_init(struct load_target *target,
                                      const struct load_settings *settings);
void gs_load_target_done(struct load_target *target);

#endif
