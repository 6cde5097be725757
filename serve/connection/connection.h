/* A connection's socket and its HTTP state: the steps that all architectures take.
 *
 * A connection is used by one kernel thread at a time, not always the same one; what it shares with
 * others (its shard) is locked here, around the calls of HTTP that use it. */
#ifndef GS_SERVE_CONNECTION_H
#define GS_SERVE_CONNECTION_H

#include "serve/accept/accept.h"
#include "serve/accept/eviction.h"
#include "serve/accept/networks.h"
#include "serve/connection/shard.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct serve_connection;
struct serve_proxy;
struct serve_tls;

/* In tls.h. */
unsigned serve_tls_wants(const struct serve_connection *connection);

struct serve_connection {
    struct gs_http_conn http;
    struct serve_shard *shard;
    struct serve_tls *tls; /* NULL: it has none, or nothing has been received */
    int fd;
    uint8_t family;        /* of the peer's address; AF_UNSPEC: there is no log */
    uint8_t pace;          /* how well the peer has shown that it reads files */
    bool is_shut_down : 1; /* our sending side: it lingers until the peer closes */
    bool has_answered : 1; /* at least begun to; before, a descriptor is kept free for it */
    bool is_tls : 1;
    bool awaits_proxy : 1; /* the header of a proxy, which names the client */
    union {
        unsigned char host[16];
        struct serve_proxy *proxy; /* while it awaits that: what was received of it, or NULL */
    };
};

/* Takes accepted->fd. */
void serve_connection_init(struct serve_connection *connection,
                           const struct serve_accepted *accepted, struct serve_shard *shard,
                           uint64_t now_ns);

/* Close the socket and release what the connection holds. If an answer is in progress while the
 * server drains, the connection counts as cut off. */
void serve_connection_done(struct serve_connection *connection);

/* What it waits for, as gs_http_conn_wants: of HTTP, or of TLS, below it. */
static inline unsigned serve_connection_wants(const struct serve_connection *connection)
{
    return connection->tls ? serve_tls_wants(connection) : gs_http_conn_wants(&connection->http);
}

/* ---- Receiving ---- */

/* Receive into buffer and pass the bytes to HTTP. Returns how many; 0 at the end of the connection
 * or after an error; or -EAGAIN. */
ssize_t serve_connection_receive(struct serve_connection *connection, char *buffer, size_t size,
                                 uint64_t now_ns);

/* Pass the result of a receive to HTTP: n bytes; 0: the peer has shut down; -errno: it failed. */
void serve_connection_received(struct serve_connection *connection, const char *bytes, ssize_t n,
                               uint64_t now_ns);

/* ---- Sending ---- */

/* Whether a send failed because the kernel has no memory for it now: it may be tried again after a
 * pause. */
#define SERVE_NOMEM_PAUSE_NS (20 * GS_MILLISECOND)
static inline bool serve_is_nomem(ssize_t n)
{
    return n == -ENOBUFS || n == -ENOMEM;
}

/* Send some of the output. Returns the bytes sent; 0 if it can't be sent, and the connection wants
 * to be closed; -EAGAIN; or an error for serve_is_nomem. */
ssize_t serve_connection_send(struct serve_connection *connection, uint64_t now_ns);

/* The next part of the output: memory, or a part of a file; with TLS, both in any order, since what
 * is encrypted passes through memory. */
#define SERVE_PARTS 8
struct serve_output {
    struct iovec parts[SERVE_PARTS]; /* without an address: the next bytes of the file */
    unsigned count;
    int flags; /* for memory: MSG_MORE if a file follows */
    bool is_file;
    int fd; /* from here on, if it has parts of a file */
    off_t offset;
    size_t n;
    const struct gs_http_page *page; /* borrowed, as the rest */
    struct serve_tls *tls;           /* encrypts it; NULL: it is sent as it is */
    uint64_t last_bytes; /* with TLS: what is left before the connection ends; 0: not known */
};

/* Whether it may have parts of a file. */
bool serve_connection_sends_file(const struct serve_connection *connection);
void serve_connection_output(struct serve_connection *connection, struct serve_output *ret_output);

/* Send some of it. Any kernel thread; a large stack, if it is encrypted. Returns the argument n of
 * serve_connection_sent. */
ssize_t serve_output_send(struct serve_output *output, int fd);

/* Note the result of a send: n bytes were sent; -EAGAIN: the socket has no room; an error for
 * serve_is_nomem; 0 or another -errno: it can't be sent. If that is due to a file, the answer is
 * broken off, which is counted and reported. */
void serve_connection_sent(struct serve_connection *connection, const struct serve_output *output,
                           ssize_t n, uint64_t now_ns);

/* ---- What else it wants ---- */

/* Return a load that was taken and run. */
void serve_connection_loaded(struct serve_connection *connection, struct gs_http_load *load,
                             uint64_t now_ns);

/* Shut down the sending side, as the connection wants. */
void serve_connection_shut_down(struct serve_connection *connection, uint64_t now_ns);

/* Its deadline has passed. If it is closed now and the peer has not taken all, it is reset. */
void serve_connection_expire(struct serve_connection *connection, uint64_t now_ns);

/* It is closed because the drain timeout has passed, whatever is in progress. */
void serve_connection_cut_off(struct serve_connection *connection);

/* The server drains. What has been received should be passed to HTTP before. */
void serve_connection_drain(struct serve_connection *connection, uint64_t now_ns);

/* ---- To choose one that gives way to others (serve/accept/eviction.h) ---- */

/* What it waits for, as serve_waits; SERVE_BUSY: a request or an answer is under way. */
uint64_t serve_connection_waits(const struct serve_connection *connection);

/* As serve_eviction_address. The first call without a log asks the kernel and notes the answer in
 * the connection: so calls for one connection must not run at the same time. */
uint64_t serve_connection_address(struct serve_connection *connection);

/* Its peer is to be seen as having closed: what it has sent is still answered. Any kernel thread,
 * while the connection is not closed. */
void serve_connection_end_input(const struct serve_connection *connection);

/* ---- Between connection.c, proxy.c and tls.c ---- */

/* A proxy has named the client; AF_UNSPEC: it speaks for itself. */
void serve_connection_set_client(struct serve_connection *connection,
                                 const struct serve_host *client);

/* Pass bytes to HTTP, the end, or an error, as serve_connection_received. */
void serve_connection_pass(struct serve_connection *connection, const char *bytes, ssize_t n,
                           uint64_t now_ns);

/* A gs_http_log_fn whose data is a struct serve_log_writer. */
void serve_connection_log(const struct gs_http_conn *http, const struct gs_http_log_entry *entry,
                          void *data);

#endif
