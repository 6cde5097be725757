/* A connection that is served by blocking: whoever serves it does what needs no waiting, then waits, until it is over.
 *
 *     serve_blocking_init(&blocking, gate, &shard, &arrival);
 *     serve_blocking_run(&blocking);
 *     serve_blocking_done(&blocking);
 *
 * A wait ends with the connection's deadline, too, and when the server goes down: then what was received is answered. One kernel
 * thread at a time, with 24 KiB of stack. */
#ifndef GS_SERVE_BLOCKING_H
#define GS_SERVE_BLOCKING_H

#include "serve/connection.h"
#include "serve/gate.h"

struct serve_blocking {
    struct serve_connection base;
    struct serve_gate *gate;
    uint64_t limit_ns;             /* when it is closed if it is idle, besides its own deadline */
    bool is_readable, is_writable; /* the socket, as far as is known */
    bool lacks;                    /* the kernel had no memory for what is to be sent */
    bool is_draining;
    bool has_received; /* something, since the caller has set it to false */
};

/* The connection is its own from now on; so is its place. */
void serve_blocking_init(struct serve_blocking *blocking, struct serve_gate *gate,
                         struct serve_shard *shard, const struct serve_arrival *arrival);

/* Close it, and give its place back. */
void serve_blocking_done(struct serve_blocking *blocking);

/* The same, but the place stays taken. */
void serve_blocking_close(struct serve_blocking *blocking);

static inline bool serve_blocking_is_over(const struct serve_blocking *blocking)
{
    return gs_http_conn_wants(&blocking->base.http) & GS_HTTP_CLOSE;
}

/* Serve it until it is over. */
void serve_blocking_run(struct serve_blocking *blocking);

/* ---- Or step by step ---- */

/* Do what can be done without waiting, but not for ever: true if there is more. */
bool serve_blocking_advance(struct serve_blocking *blocking);

/* If it is idle and its limit has come, it is over. */
void serve_blocking_limit(struct serve_blocking *blocking, uint64_t now_ns);

/* Wait until there is something to do. */
void serve_blocking_wait(struct serve_blocking *blocking);

/* For those who wait for it in their own way: what for, as poll takes it, and until when; and what came of it. 0 events: it has come
 * to its deadline, or will be looked at anyway. */
unsigned serve_blocking_events(const struct serve_blocking *blocking);
uint64_t serve_blocking_deadline(const struct serve_blocking *blocking);
void serve_blocking_ready(struct serve_blocking *blocking, unsigned events);

#endif
