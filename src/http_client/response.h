/* The private part of a response. */
#ifndef GS_HTTP_CLIENT_RESPONSE_H
#define GS_HTTP_CLIENT_RESPONSE_H

#include "http_client/decoder.h"
#include "http_client/stream.h"

struct gs_http_client;

struct gs_http_client_reading {
    struct gs_http_response response; /* first: what the program has a pointer to */
    const struct gs_http_client *client;
    struct gs_http_client_stream *stream;
    void *head; /* memory of the fields */
    char *url;
    const char *coding;                     /* in the head; NULL: the body is not decoded */
    struct gs_http_client_decoder *decoder; /* from the first byte of the body on */
    bool is_full;                           /* the decoder may have more for the same input */
    uint64_t decoded;
};

/* Make the response. It takes the stream, the answer's memory and the URL, unless it fails: with
 * -ENOMEM. */
GS_MUST_CHECK int gs_http_client_respond(const struct gs_http_client *client,
                                         struct gs_http_client_stream *stream,
                                         const struct gs_http_client_answer *answer, char *url,
                                         struct gs_http_client_reading **ret_reading);

/* Returns the value of the first of the fields with this name; NULL: there is none. */
const char *gs_http_client_find(const struct gs_http_field *fields, unsigned count,
                                const char *name);

#endif
