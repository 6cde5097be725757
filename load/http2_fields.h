/* The fields of a request of HTTP/2. */
#ifndef GS_LOAD_HTTP2_FIELDS_H
#define GS_LOAD_HTTP2_FIELDS_H

#include "load/http2_client.h"

#include <nghttp2/nghttp2.h>

struct load_fields {
    char *text; /* which the items point into */
    size_t count;
    nghttp2_nv items[];
};

#endif
