/* The target of a run: the server's address and the bytes of the request for each URL. Read-only
 * during the run. */
#ifndef GS_LOAD_TARGET_H
#define GS_LOAD_TARGET_H

#include "load/addresses.h"
#include "load/http2_client.h"
#include "load/tls_client.h"

#include <stddef.h>

struct load_bytes {
    char *bytes;
    size_t length;
};

struct load_request {
    struct load_bytes kept;
    struct load_bytes last; /* the same with "Connection: close", for a connection's last request */
    struct load_fields *fields; /* of HTTP/2; NULL: HTTP/1.1 */
};

struct load_target {
    struct load_addresses addresses;
    struct load_tls_target tls;
    size_t request_count;
    struct load_request *requests;
    struct load_bytes body; /* of each request */
};

/* Returns 0 or, after printing a line to stderr, -EINVAL (invalid URLs, or an unreadable file),
 * -EHOSTUNREACH (unknown host) or -ENOMEM. */
GS_MUST_CHECK int gs_load_target_init(struct load_target *target,
                                      const struct load_settings *settings);
void gs_load_target_done(struct load_target *target);

#endif
