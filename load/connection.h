/* A client's connection to the server, one after another, with or without TLS. */
#ifndef GS_LOAD_CONNECTION_H
#define GS_LOAD_CONNECTION_H

#include "load/worker.h"

#include <gossamer/io.h>

struct load_connection {
    struct load_worker *worker;
    int fd;                 /* -1: not connected */
    bool is_new;            /* nobody has waited for the descriptor yet */
    bool is_established;    /* also with TLS */
    bool is_reused;         /* it was established before the current request */
    uint64_t request_count; /* which its user counts */
    uint64_t connect_ns;    /* LOAD_NO_TIME once the first response was recorded */
    uint64_t handshake_ns;  /* of connect_ns; LOAD_NO_TIME without TLS */
    struct load_tls tls;
};

void gs_load_connection_init(struct load_connection *connection, struct load_worker *worker);

/* After gs_load_connection_close, at the end of the client. */
void gs_load_connection_done(struct load_connection *connection);

/* Start to connect: on the loopback interface the connection is established on return, otherwise it
 * is pending. Returns 0 or -errno. */
GS_MUST_CHECK int gs_load_connection_start(struct load_connection *connection);

/* A connection that was started at start_ns has been established at connected_ns. */
void gs_load_connection_record(struct load_connection *connection, uint64_t start_ns,
                               uint64_t connected_ns);

/* Start, wait for the end, and make the handshake of TLS. Returns 0 or -errno. */
GS_MUST_CHECK int gs_load_connection_establish(struct load_connection *connection);

/* Also after a failure, and without a connection. */
void gs_load_connection_close(struct load_connection *connection);

/* The kind of error of a request whose call failed with err. -ECANCELED occurs only at the end of
 * the run, when it is not counted. */
enum load_error gs_load_connection_error(const struct load_connection *connection, int err);

/* The same of a request for which no connection could be established. */
enum load_error gs_load_connection_connect_error(const struct load_connection *connection, int err);

/* Send without waiting, also what TLS has left to send: then n may be 0. Returns the number of
 * bytes taken; -ETIMEDOUT: there is no room; or another error. */
static inline ssize_t gs_load_connection_send(struct load_connection *connection, const char *bytes,
                                              size_t n)
{
    if (connection->tls.engine)
        return gs_load_tls_send(&connection->tls, bytes, n);
    return n ? gs_send(connection->fd, bytes, n, 0, 0) : 0;
}

/* Receive once, and call fn on the worker's stack, which calls gs_load_connection_decrypt. With
 * TLS, until there is plaintext or an end. Returns what fn returned, or an error of gs_recv_with.
 */
GS_MUST_CHECK ssize_t gs_load_connection_receive(struct load_connection *connection,
                                                 gs_received_fn *fn, void *data,
                                                 uint64_t deadline_ns);

/* Call fn, unless it is NULL, with what was received, after TLS if the connection has it. Returns
 * the number of bytes; 0 at the end; or an error of gs_load_tls_receive. */
GS_MUST_CHECK static inline ssize_t gs_load_connection_decrypt(struct load_connection *connection,
                                                               const void *bytes, size_t n,
                                                               load_plain_fn *fn, void *data)
{
    if (connection->tls.engine)
        return gs_load_tls_receive(&connection->tls, bytes, n, fn, data);
    if (n && fn)
        fn(data, bytes, n);
    return (ssize_t)n;
}

#endif
