/* Parsing of the head of a request, strictly after RFC 9110 and 9112. */
#ifndef GS_HTTP_REQUEST_H
#define GS_HTTP_REQUEST_H

#include "http/target.h"
#include "http/text.h"

#include <gossamer/http.h>
#include <sys/types.h>

enum gs_http_method {
    GS_HTTP_GET,
    GS_HTTP_HEAD,
    GS_HTTP_OPTIONS,
    GS_HTTP_KNOWN_METHOD, /* known, but not allowed for files: 405 */
    GS_HTTP_OTHER_METHOD, /* 501 */
};

/* All texts point into the head; bytes NULL: the field is absent. If a field has several lines, the
 * first of them. */
struct gs_http_request {
    enum gs_http_method method;
    bool minor;      /* HTTP/1.1 rather than 1.0 */
    bool keep_alive; /* the connection may stay open after the response */
    bool chunked, has_length, expects_continue;
    bool has_more_encodings;      /* further lines of Accept-Encoding */
    enum gs_http_refusal refusal; /* if it is refused with 400 */
    uint64_t content_length;
    struct gs_http_target target;
    struct gs_http_text line, fields; /* the request line; all field lines and the empty line */
    struct gs_http_text host, connection, range, if_range, if_match, if_none_match;
    struct gs_http_text if_modified_since, if_unmodified_since, referer, user_agent;
    struct gs_http_text transfer_encoding, expect, accept_encoding;
};

/* Parse a complete head, as gs_http_find_head_end delimits it. Returns 0, or the status to refuse
 * the request with; *ret_request then contains what was parsed before the error. */
unsigned gs_http_request_parse(struct gs_http_text head, const struct gs_http_options *options,
                               struct gs_http_request *ret_request);

/* What was received of the request line at the beginning of the input; no bytes: nothing. */
struct gs_http_text gs_http_request_line(struct gs_http_text input);

/* The method of a request, of which possibly only the beginning has been received. */
enum gs_http_method gs_http_request_method(struct gs_http_text input);

/* The status to refuse a request line with that exceeds max bytes: 501 if the method is too long,
 * 414 if the target is (RFC 9112 3). */
unsigned gs_http_request_too_long(const char *line, size_t max);

/* The status to refuse an incomplete head with, of which n bytes were received, because it is too
 * large already; 0: it is not. */
unsigned gs_http_request_check_size(const char *bytes, size_t n,
                                    const struct gs_http_options *options);

/* Parse one field line, without its CRLF and free of control characters other than tabs, and store
 * its value in *request if it is one of the fields there. Returns 0 or the status to refuse the
 * request with. */
unsigned gs_http_field_parse(struct gs_http_text line, struct gs_http_request *request);

/* Returns whether a field of this name (lower case) is one of the fields there, or is looked for
 * among all: those of others need not be kept. */
bool gs_http_request_stores(struct gs_http_text name);

/* Find the next line of the field `name` (lower case) in the fields of a parsed head, and advance
 * *fields behind it. Returns false if there is none. */
bool gs_http_field_next(struct gs_http_text *fields, const char *name,
                        struct gs_http_text *ret_value);

/* The same for the next line of any field. */
bool gs_http_field_next_any(struct gs_http_text *fields, struct gs_http_text *ret_name,
                            struct gs_http_text *ret_value);

#endif
