/* Fields of HTTP messages, as http_server.h and http_client.h have them. */
#ifndef GOSSAMER_HTTP_FIELD_H
#define GOSSAMER_HTTP_FIELD_H

#include <gossamer/api.h>
#include <stdint.h>

GS_BEGIN_DECLS

struct gs_http_field {
    const char *name, *value;
};

/* A length that is not known in advance. */
#define GS_HTTP_UNKNOWN UINT64_MAX

GS_END_DECLS

#endif
