/* Answers: put into a connection's output. */
#ifndef GS_HTTP_REPLY_H
#define GS_HTTP_REPLY_H

#include "http/request.h"
#include "http/service.h"

/* What an answer is made of. There must be room in the output: GS_HTTP_REPLY_BYTES and all its
 * segments, or for an answer without ranges the smaller figures. */
struct gs_http_reply {
    struct gs_http_service *service;
    struct gs_http_output *output;
    const struct gs_http_request *request;
    struct gs_http_conn *conn;
    bool keep_alive; /* the connection stays open */
    uint64_t now_ns;
};

#define GS_HTTP_REPLY_BYTES 5600
#define GS_HTTP_REPLY_SMALL_BYTES 1024
#define GS_HTTP_REPLY_SMALL_SEGMENTS 3

/* What was answered: the status, and where in the output the body begins. */
struct gs_http_replied {
    unsigned status;
    uint64_t body;
};

/* A page to a GET or HEAD: 200, 206, 304, 412 or 416. Answers with the whole page that a cache
 * holds take the shortest way. */
struct gs_http_replied gs_http_reply_page(const struct gs_http_reply *reply,
                                          struct gs_http_page *page);

/* A status with a few words of text; with Allow for OPTIONS (200) and 405, with Location for 301.
 */
struct gs_http_replied gs_http_reply_status(const struct gs_http_reply *reply, unsigned status);

/* "100 Continue". */
void gs_http_reply_continue(struct gs_http_output *output);

/* Count the answer, and note its place in the log. */
void gs_http_reply_record(const struct gs_http_reply *reply, struct gs_http_replied replied);

/* Write the log of what has been sent; of everything, with what was sent of it, if all. */
void gs_http_reply_flush_log(struct gs_http_conn *conn, bool all);

#endif
