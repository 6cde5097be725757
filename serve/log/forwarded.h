/* Whom a request comes from, if proxies in front of the server say so in a header field: that of
 * RFC 7239, or the older X-Forwarded-For. Each proxy adds, at the end, the peer that it got the
 * request from: so the end is believed as long as those who wrote it are trusted. */
#ifndef GS_SERVE_FORWARDED_H
#define GS_SERVE_FORWARDED_H

#include "serve/accept/networks.h"

struct serve_forwarded {
    struct serve_networks trusted; /* proxies; none: nobody is believed */
    bool is_standard;              /* Forwarded rather than X-Forwarded-For */
};

/* The name of the field, in lower case; NULL: nobody is believed. */
const char *serve_forwarded_field(const struct serve_forwarded *forwarded);

/* Returns the client of a request that peer has sent, with this value of the field; NULL: it has
 * none. */
struct serve_host serve_forwarded_client(const struct serve_forwarded *forwarded,
                                         const struct serve_host *peer, const char *value);

#endif
