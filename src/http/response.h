/* The client's side of HTTP/1.0 and 1.1: reads one answer, from bytes as they come in, and tells
 * how long its body is, where it ends, and whether the connection may be used again. The body is
 * counted and not kept.
 *
 *     struct gs_response response;
 *     gs_response_init(&response, false);
 *     ssize_t used = gs_response_feed(&response, bytes, n);
 *     if (used >= 0 && gs_response_is_done(&response))
 *         ...                                       bytes + used is where the next answer begins
 *
 * Interim answers (1xx) are read over. The bytes are borrowed: of a line of which the end has not
 * come yet, the beginning is kept, which is all that the fields that matter here can need. Longer
 * lines are cut to that, however they come in, so that the result never depends on how the bytes
 * were split.
 *
 *                          1xx                  chunked              size 0
 *              +----------------------+  +---------------> SIZE ----------------> TRAILER --+
 *              v                      |  |                 |  ^                             |
 *     STATUS ------> FIELDS ----------+--+                 v  |                             v
 *                                     |  |               CHUNK ---> CHUNK_END               DONE
 *                                     |  +-- Content-Length --> LENGTH -------------------> ^
 *                                     |  +-- neither ---------> UNTIL_CLOSE -- end -------> |
 *                                     +----- no body --------------------------------------+
 */
#ifndef GS_HTTP_RESPONSE_H
#define GS_HTTP_RESPONSE_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { GS_RESPONSE_CARRY = 120, GS_RESPONSE_HEADER_LIMIT = 64 * 1024 };

/* The first members may be read. */
struct gs_response {
    uint64_t body_bytes; /* so far, without the framing of chunks */
    uint16_t status;     /* 0 until it is known; never that of an interim answer once is_done */
    bool keep_alive;     /* true once the answer is read: another request may be sent */

    uint8_t state;
    bool is_head;
    bool is_http_1_0;
    bool has_length;
    bool is_chunked;
    bool has_coding; /* a transfer coding, chunked or not */
    bool is_cut;     /* the carried line is longer than `carry` */
    bool says_close, says_keep_alive;
    uint8_t carried;
    uint32_t header_bytes; /* of all that is not body, since the last chunk */
    uint64_t left;         /* of the body, or of the chunk */
    char carry[GS_RESPONSE_CARRY];
};

/* is_head: the answer is one to HEAD, which has no body whatever it says. */
void gs_response_init(struct gs_response *response, bool is_head);

/* Read on. Returns how many bytes were used: all of them, unless the answer ends before. Or -EPROTO
 * (not an answer as RFC 9112 has it, or one whose length can't be trusted) or -EMSGSIZE (more than
 * GS_RESPONSE_HEADER_LIMIT of header); the response is of no more use then. */
GS_MUST_CHECK ssize_t gs_response_feed(struct gs_response *response, const char *bytes, size_t n);

/* The peer has closed. Returns 0 if the answer ends so (or had ended before), or -ECONNABORTED if
 * it was cut short. */
GS_MUST_CHECK int gs_response_end(struct gs_response *response);

bool gs_response_is_done(const struct gs_response *response);

/* Whether any byte of the answer was read. */
bool gs_response_has_begun(const struct gs_response *response);

#endif
