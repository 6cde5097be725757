/* The client's side of HTTP/1.0 and 1.1: parses one response, incrementally, and determines the
 * length and the end of its body and whether the connection may be reused. The body is counted, and
 * its data is found. The fields are the caller's to find in the head (response_head.h).
 *
 *     struct gs_http_response_parser parser;
 *     gs_http_response_parser_init(&parser, false);
 *     ssize_t used = gs_http_response_parser_feed(&parser, bytes, n);
 *     if (used >= 0 && gs_http_response_parser_is_done(&parser))
 *         ...                                    the next response starts at bytes + used
 *
 * What common clients tolerate is accepted: lines that end with LF alone, folded fields, white
 * space before a colon, a length besides a transfer coding, a coding in HTTP/1.0. After the last
 * two the connection is not kept. Interim responses (1xx) are skipped. The bytes are borrowed. Of
 * an incomplete line only the beginning is stored, which suffices for the relevant fields; longer
 * lines are truncated to the same length even if they are complete, so the result never depends on
 * how the bytes were split.
 *
 *                          1xx                  chunked              size 0
 *              +----------------------+  +---------------> SIZE ----------------> TRAILER --+
 *              v                      |  |                 |  ^                             |
 *     STATUS ------> FIELDS ----------+--+                 v  |                             v
 *                                     |  |               CHUNK ---> CHUNK_END               DONE
 *                                     |  +-- Content-Length --> LENGTH -------------------> ^
 *                                     |  +-- neither ---------> UNTIL_CLOSE -- EOF -------> |
 *                                     +----- no body --------------------------------------+
 */
#ifndef GS_HTTP_RESPONSE_PARSER_H
#define GS_HTTP_RESPONSE_PARSER_H

#include "http/text.h"

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { GS_HTTP_RESPONSE_LINE_MAX = 120, GS_HTTP_RESPONSE_HEADER_MAX = 64 * 1024 };

/* The caller may read the members before `state`; the others are private. */
struct gs_http_response_parser {
    uint64_t body_bytes; /* so far, without the framing of chunks */
    uint16_t status;     /* 0 until it is known; once done, not that of an interim response */
    bool keep_alive;     /* once done: another request may be sent on the connection */
    const char *reason;  /* why the response was refused; NULL if it was not */

    uint8_t state;
    bool is_head;
    bool is_http_1_0;
    bool has_length_field, has_length; /* the field may be empty so far */
    bool has_coding_field, has_coding_element;
    bool is_chunked;
    bool has_coding;   /* a transfer coding, chunked or not */
    bool is_truncated; /* the current line is longer than `line` */
    uint8_t field;     /* the field that the next line may continue */
    bool has_close, has_keep_alive;
    uint8_t line_length;
    uint32_t header_bytes;  /* other than body, since the last chunk */
    uint32_t interim_bytes; /* of interim responses, which precede the head */
    uint64_t left;          /* of the body, or of the chunk */
    char line[GS_HTTP_RESPONSE_LINE_MAX];
};

/* is_head: it is the response to a HEAD request, which never has a body. */
void gs_http_response_parser_init(struct gs_http_response_parser *parser, bool is_head);

/* Parse received bytes. Returns the number of bytes used: all, unless the response ends before
 * them. Returns -EPROTO for input that is not a response of RFC 9112 or has an unreliable length,
 * and -EMSGSIZE for more than GS_HTTP_RESPONSE_HEADER_MAX bytes of header; `reason` is set, and the
 * parser must not be used again. */
GS_MUST_CHECK ssize_t gs_http_response_parser_feed(struct gs_http_response_parser *parser,
                                                   const char *bytes, size_t n);

/* The same, but stop at the end of the head (gs_http_response_parser_has_head), and behind the
 * first data of the body, which is *ret_data: a part of the bytes, empty if they contain none. */
GS_MUST_CHECK ssize_t gs_http_response_parser_next(struct gs_http_response_parser *parser,
                                                   const char *bytes, size_t n,
                                                   struct gs_http_text *ret_data);

/* Returns whether the head is complete; then the first interim_bytes of all bytes so far are those
 * of interim responses, and the status is known. */
bool gs_http_response_parser_has_head(const struct gs_http_response_parser *parser);

/* Get the length of the body that the head has announced, as soon as the head is complete and
 * before the body is parsed; for HEAD and with 304, of the body that is not sent. Returns whether
 * there is one. */
bool gs_http_response_parser_length(const struct gs_http_response_parser *parser,
                                    uint64_t *ret_length);

/* Report that the peer has closed the connection. Returns 0 if that ends the response (or it was
 * complete already), or -ECONNABORTED if it is incomplete. */
GS_MUST_CHECK int gs_http_response_parser_end(struct gs_http_response_parser *parser);

bool gs_http_response_parser_is_done(const struct gs_http_response_parser *parser);

/* Returns whether any byte of the response was received. */
bool gs_http_response_parser_has_started(const struct gs_http_response_parser *parser);

#endif
