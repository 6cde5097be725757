/* Building of responses, in a connection's output. */
#ifndef GS_HTTP_RESPONSE_H
#define GS_HTTP_RESPONSE_H

#include "http/request.h"
#include "http/service.h"

/* The context of a response. The output must have room for GS_HTTP_RESPONSE_BYTES, the fields of
 * the sites, and all its segments, or for the smaller values if the response has no ranges. */
struct gs_http_response {
    struct gs_http_service *service;
    struct gs_http_output *output;
    const struct gs_http_request *request;
    struct gs_http_conn *conn;
    struct gs_http_text fields; /* lines for its head */
    bool has_page_fields;       /* they are a page's: not all of them are for errors */
    bool is_quiet;              /* it is not logged */
    bool has_origin;            /* which it depends on (cors.h) */
    bool keep_alive;            /* the connection stays open */
    bool is_negotiated;         /* it depends on Accept-Encoding; pages tell it themselves */
    uint64_t now_ns;
};

#define GS_HTTP_RESPONSE_BYTES 5600
#define GS_HTTP_RESPONSE_SMALL_BYTES 1024
#define GS_HTTP_RESPONSE_SMALL_SEGMENTS 3

/* A response that was built: its status, and the position in the output where its body starts. */
struct gs_http_response_info {
    unsigned status;
    uint64_t body;
};

/* Respond to a GET or HEAD for a page with 200, 206, 304, 412 or 416. */
struct gs_http_response_info gs_http_respond_with_page(const struct gs_http_response *response,
                                                       struct gs_http_page *page);

/* Respond with a page that keeps the status of an error; it has no validators and no ranges. */
struct gs_http_response_info
gs_http_respond_with_error_page(const struct gs_http_response *response, struct gs_http_page *page,
                                unsigned status);

/* Whether a redirect to https (308) can name the host that the request is for. */
bool gs_http_may_redirect(const struct gs_http_request *request);

/* Respond with a status and a short text; with Allow for OPTIONS (200) and 405, with Location for
 * 301 and 308, with Retry-After for 503, with Vary for 406. */
struct gs_http_response_info gs_http_respond_with_status(const struct gs_http_response *response,
                                                         unsigned status);

/* Respond with "100 Continue". */
void gs_http_respond_continue(struct gs_http_output *output);

#endif
