/* A connection's socket and its HTTP, together: the steps that every architecture takes, each in its own way.
 *
 * A connection is used by one kernel thread at a time, whichever that is; what it shares with others is locked in here. */
#ifndef GS_SERVE_CONNECTION_H
#define GS_SERVE_CONNECTION_H

#include "serve/shard.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct serve_connection {
    struct gs_http_conn http;
    struct serve_shard *shard;
    int fd;
    uint16_t family; /* of the peer's address, which is only known if there is a log */
    uint8_t pace;    /* whether the peer has shown that it reads */
    unsigned char host[16];
};

/* address: the peer's, or NULL. */
void serve_connection_init(struct serve_connection *connection, int fd, struct serve_shard *shard,
                           const struct sockaddr *address, uint64_t now_ns);

/* Close the socket and release all. */
void serve_connection_done(struct serve_connection *connection);

/* ---- Receiving ---- */

/* Receive into buffer and hand over what came; the socket is not waited for if it is non-blocking. Returns the bytes received;
 * 0 at the end of the connection, whether the peer ended or it broke; -EAGAIN. */
ssize_t serve_connection_receive(struct serve_connection *connection, char *buffer, size_t size,
                                 uint64_t now_ns);

/* Hand over what a receive gave: n bytes; 0, the peer has ended; or -errno, it broke. */
void serve_connection_received(struct serve_connection *connection, const char *bytes, ssize_t n,
                               uint64_t now_ns);

/* ---- Sending ---- */

/* Whether a send failed because the kernel has no memory for it now: it may be tried again in a while. */
#define SERVE_LACK_PAUSE_NS (20 * GS_MILLISECOND)
static inline bool serve_connection_lacks(ssize_t n)
{
    return n == -ENOBUFS || n == -ENOMEM;
}

/* Send some of the output. Returns the bytes sent; 0: it can't be sent, and the connection wants to be closed; -EAGAIN; or one for
 * serve_connection_lacks. */
ssize_t serve_connection_send(struct serve_connection *connection, uint64_t now_ns);

/* What is the next to be sent: memory, or a part of a file. */
#define SERVE_PARTS 8
struct serve_output {
    struct iovec parts[SERVE_PARTS];
    unsigned count; /* of parts; 0: a file */
    int flags; /* with the parts: MSG_MORE if a file follows, so that the last packet had better wait */
    int fd;
    off_t offset;
    size_t n;
};
bool serve_connection_sends_file(const struct serve_connection *connection);
void serve_connection_output(struct serve_connection *connection, struct serve_output *ret_output);

/* Send some of that. Any kernel thread. Returns what serve_connection_sent is to be told. */
ssize_t serve_output_send(struct serve_output *output, int fd);

/* Tell what a send of that gave: n bytes were sent; -EAGAIN, the peer must make room first; one for serve_connection_lacks; or, 0
 * and other -errno, it can't be sent. */
void serve_connection_sent(struct serve_connection *connection, const struct serve_output *output,
                           ssize_t n, uint64_t now_ns);

/* ---- The other things that it wants ---- */

/* Hand a load back that was taken and run. */
void serve_connection_loaded(struct serve_connection *connection, struct gs_http_load *load,
                             uint64_t now_ns);

/* Shut down the sending side, as the connection wants. */
void serve_connection_shut_down(struct serve_connection *connection, uint64_t now_ns);

/* Its deadline has come. If it ends now and the peer has not taken all, it is reset. */
void serve_connection_expire(struct serve_connection *connection, uint64_t now_ns);

/* The server is going down. What was received already had better be handed over before. */
void serve_connection_drain(struct serve_connection *connection, uint64_t now_ns);

/* A gs_http_log_fn for connections like this, whose data is a struct serve_log_writer. */
void serve_connection_log(const struct gs_http_conn *http, const struct gs_http_log_entry *entry,
                          void *data);

#endif
