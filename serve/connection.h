/* A connection's socket and its HTTP, together: the steps that every architecture takes, each in its own way. */
#ifndef GS_SERVE_CONNECTION_H
#define GS_SERVE_CONNECTION_H

#include "serve/access_log.h"

#include <gossamer/http.h>

struct serve_connection {
    struct gs_http_conn http;
    int fd;
    uint16_t family; /* of the peer's address, which is only known if there is a log */
    unsigned char host[16];
};

/* address: the peer's, or NULL. */
void serve_connection_init(struct serve_connection *connection, int fd,
                           struct gs_http_service *service, const struct sockaddr *address,
                           uint64_t now_ns);

/* Close the socket and release all. */
void serve_connection_done(struct serve_connection *connection);

/* Receive into buffer and hand over what came; the socket is not waited for if it is non-blocking. Returns the bytes received;
 * 0 at the end of the connection, whether the peer ended or it broke; -EAGAIN. */
ssize_t serve_connection_receive(struct serve_connection *connection, char *buffer, size_t size,
                                 uint64_t now_ns);

/* Send some of the output. Returns the bytes sent; 0: it can't be sent, and the connection wants to be closed; -EAGAIN. */
ssize_t serve_connection_send(struct serve_connection *connection, uint64_t now_ns);

/* Shut down the sending side, as the connection wants. */
void serve_connection_shut_down(struct serve_connection *connection, uint64_t now_ns);

/* Its deadline has come. If it ends now and the peer has not taken all, it is reset. */
void serve_connection_expire(struct serve_connection *connection, uint64_t now_ns);

/* A gs_http_log_fn for connections like this, whose data is a struct serve_log_writer. */
void serve_connection_log(const struct gs_http_conn *http, const struct gs_http_log_entry *entry,
                          void *data);

#endif
