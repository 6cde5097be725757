/* The head of a request, taken apart and checked: RFC 9110 and 9112 to the letter. */
#ifndef GS_HTTP_REQUEST_H
#define GS_HTTP_REQUEST_H

#include "http/target.h"
#include "http/text.h"

#include <gossamer/http.h>

enum gs_http_method {
    GS_HTTP_GET,
    GS_HTTP_HEAD,
    GS_HTTP_OPTIONS,
    GS_HTTP_KNOWN_METHOD, /* known, and not for files: 405 */
    GS_HTTP_OTHER_METHOD, /* 501 */
};

/* All texts point into the head; bytes NULL: the field is absent. Of a field that came in several
 * lines, the first. */
struct gs_http_request {
    enum gs_http_method method;
    bool minor;      /* HTTP/1.1 rather than 1.0 */
    bool keep_alive; /* the connection may stay open after the answer */
    bool chunked, has_length, expects_continue;
    uint64_t content_length;
    struct gs_http_target target;
    struct gs_http_text line, fields; /* the request line; all field lines and the empty line */
    struct gs_http_text host, connection, range, if_range, if_match, if_none_match;
    struct gs_http_text if_modified_since, if_unmodified_since, referer, user_agent;
    struct gs_http_text transfer_encoding, expect;
};

/* head: as gs_http_head_end delimits it. Returns 0, or the status to refuse the request with;
 * *ret_request is filled as far as the head was understood. */
unsigned gs_http_request_parse(struct gs_http_text head, const struct gs_http_options *options,
                               struct gs_http_request *ret_request);

/* The method of a request of which maybe only the beginning has come. */
enum gs_http_method gs_http_request_method(struct gs_http_text begun);

/* The status to refuse a request line with of which more than `most` bytes have come: it is the
 * method that is too long, or the target (RFC 9112 3). */
unsigned gs_http_request_too_long(const char *line, size_t most);

#endif
