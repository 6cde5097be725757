/* HTTP/1.0 and 1.1 for files: bytes in, bytes out.
 *
 *     gs_http_conn_init(&conn, service, now_ns);
 *     gs_http_conn_receive(&conn, bytes, n, now_ns);          what the socket gave
 *     if (gs_http_conn_wants(&conn) & GS_HTTP_WRITE) {
 *         unsigned count = gs_http_conn_output(&conn, pieces, 8);
 *         gs_http_conn_sent(&conn, what_the_socket_took, now_ns);
 *     }
 *
 * Nothing here knows a socket, a thread, a loop or a clock. A connection is told what happened and
 * when, and says what it wants next (a set of GS_HTTP_READ, ...) and until when. Whoever drives it
 * does what it wants in whatever way its concurrency architecture has, so that all architectures
 * give the same bytes for the same request.
 *
 * A connection and the service that it belongs to are used by one kernel thread at a time.
 * Everything here needs at most 1.5 KiB of stack.
 */
#ifndef GOSSAMER_HTTP_H
#define GOSSAMER_HTTP_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct gs_http_conn;
struct gs_http_load;
struct gs_http_output;
struct gs_http_page;

/* ---- What is served, and how strictly ---- */

/* One answered request, as an access log wants it. The text is valid during the call only. */
struct gs_http_log_entry {
    const char *request_line, *referer,
        *user_agent; /* NUL-terminated; NULL: the request had none */
    unsigned status;
    uint64_t body_bytes; /* of the answer, that were sent */
    int64_t received;    /* wall-clock seconds at which the request was complete */
};

/* Called when an answer has been sent as far as it will be. */
typedef void gs_http_log_fn(const struct gs_http_conn *conn, const struct gs_http_log_entry *entry,
                            void *data);

/* A page that is made anew for each request rather than read from a file. */
struct gs_http_maker {
    const char *path; /* below the root, without a slash in front */
    const char *media_type;
    size_t size_most;

    /* Write the page, at most n bytes. Any kernel thread, several at a time, with whatever stack the architecture has
     * there. Returns the length, or -errno: 500, or 503 for -EAGAIN and -ENOMEM. */
    int64_t (*make)(char *bytes, size_t n, void *data);
    void *data;
};

struct gs_http_options {
    size_t request_line_most;   /* bytes; above: 414 */
    size_t header_most;         /* bytes of all fields; above: 431 */
    unsigned fields_most;       /* above: 431 */
    uint64_t body_most;         /* bytes of a request's body, which is discarded; above: 413 */
    uint64_t header_timeout_ns; /* from a request's first byte to the end of its header */
    uint64_t idle_timeout_ns;   /* between requests */
    uint64_t
        rate_window_ns; /* in each such time, a transfer moves at least rate_least bytes a second */
    uint64_t rate_least;         /* 0: no limit */
    uint64_t requests_most;      /* of one connection; 0: no limit */
    size_t cached_file_most;     /* bytes; larger files are sent from their descriptor */
    size_t cache_most;           /* bytes of all cached files */
    unsigned cached_descriptors; /* of larger files, kept open */
    bool dotfiles;               /* serve names that begin with a dot */
    bool follow_symlinks;        /* also those that lead out of the root */
    gs_http_log_fn *log;         /* NULL: no log */
    void *log_data;
    const struct gs_http_maker *makers; /* borrowed; they come before files */
    unsigned maker_count;
};

GS_API void gs_http_options_default(struct gs_http_options *ret_options);

/* ---- A service: what the connections of one worker share ---- */

/* Times from a request to the end of its answer, as its connection was told: slot i counts those below 2^i microseconds and
 * not below half of that; the last, all longer ones too. */
#define GS_HTTP_LATENCIES 28

/* Written by one kernel thread at a time, word by word, so that others may read each at any time. */
struct gs_http_counts {
    uint64_t connections;
    uint64_t closed;        /* of these */
    uint64_t requests;      /* answered, with whatever status */
    uint64_t client_errors; /* answers of 400 to 499 */
    uint64_t server_errors; /* answers of 500 and above */
    uint64_t bytes;         /* sent */
    uint64_t timeouts;      /* connections closed for being too slow */
    uint64_t latency_ns;    /* of all answers that were sent, together */
    uint64_t latencies[GS_HTTP_LATENCIES];
};

struct gs_http_service;

/* root_fd: the directory that is served; borrowed. counts: where to count, for instance in memory
 * that processes share; borrowed. Returns 0 or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_http_service_new(const struct gs_http_options *options, int root_fd,
                                             struct gs_http_counts *counts,
                                             struct gs_http_service **ret_service);

/* After the last of its connections. NULL is accepted. */
GS_API void gs_http_service_free(struct gs_http_service *service);

/* What the wall clock shows at now_ns; to be told at least twice a second while there is work, for
 * Date. */
GS_API void gs_http_service_set_wall(struct gs_http_service *service, uint64_t now_ns,
                                     uint64_t wall_ns);

/* ---- A connection ---- */

enum gs_http_want {
    GS_HTTP_READ = 1,  /* bytes: gs_http_conn_receive, or gs_http_conn_receive_end */
    GS_HTTP_WRITE = 2, /* its output taken: gs_http_conn_output, gs_http_conn_sent */
    GS_HTTP_LOAD = 4,  /* a file resolved or loaded: gs_http_conn_take_load, gs_http_conn_loaded */
    GS_HTTP_SHUTDOWN = 8, /* the sending side shut down: gs_http_conn_shut_down */
    GS_HTTP_CLOSE = 16,   /* to be closed, now; nothing else is wanted beside this */
};

/* In the caller's storage; the members are private. */
struct gs_http_conn {
    struct gs_http_service *service;
    struct gs_http_output *output; /* NULL: nothing to send */
    struct gs_http_load *load;     /* wanted or under way */
    char *tail;                    /* input that waits for more, or for its turn; NULL: none */
    uint32_t tail_n, tail_size;
    uint32_t scanned; /* of the tail: no header's end was found so far */
    uint32_t
        head_n; /* of the tail: the header of the request that waits for its body or its file */
    uint8_t state, phase;
    uint8_t wants;
    uint8_t flags;
    uint32_t requests;
    uint64_t deadline_ns;
    uint64_t moved;   /* bytes, in this window of a transfer */
    uint64_t body[3]; /* how far a request's body has been discarded */
};

GS_API void gs_http_conn_init(struct gs_http_conn *conn, struct gs_http_service *service,
                              uint64_t now_ns);

/* Release what it holds; an answer that was under way is logged with what was sent. A load that was
 * taken must have been handed back before. */
GS_API void gs_http_conn_done(struct gs_http_conn *conn);

static inline unsigned gs_http_conn_wants(const struct gs_http_conn *conn)
{
    return conn->wants;
}

/* When gs_http_conn_expire is to be called, on the same clock as now_ns; GS_NEVER: no limit. */
static inline uint64_t gs_http_conn_deadline(const struct gs_http_conn *conn)
{
    return conn->deadline_ns;
}

/* No request is in progress: none has been begun or all were answered, and all output was taken. */
GS_API bool gs_http_conn_is_idle(const struct gs_http_conn *conn);

/* Bytes from the peer; borrowed during the call: what can't be handled at once is copied. Only
 * while GS_HTTP_READ. */
GS_API void gs_http_conn_receive(struct gs_http_conn *conn, const char *bytes, size_t n,
                                 uint64_t now_ns);

/* The peer has ended its sending side. */
GS_API void gs_http_conn_receive_end(struct gs_http_conn *conn, uint64_t now_ns);

/* The next of the output, in order. A piece of memory or of a file stays as it is until
 * gs_http_conn_sent passes its end. Returns how many pieces were stored, at most `most`. */
struct gs_http_piece {
    const char *bytes; /* NULL: from a file */
    uint64_t n;
    uint64_t offset;
    int fd; /* borrowed */
};
GS_API unsigned gs_http_conn_output(const struct gs_http_conn *conn, struct gs_http_piece *pieces,
                                    unsigned most);

/* n bytes of the output have been taken. */
GS_API void gs_http_conn_sent(struct gs_http_conn *conn, uint64_t n, uint64_t now_ns);

/* The output can't be sent, or not whole: the peer is gone, or a file turned out shorter than
 * announced. */
GS_API void gs_http_conn_abort(struct gs_http_conn *conn);

/* The sending side has been shut down, as wanted. */
GS_API void gs_http_conn_shut_down(struct gs_http_conn *conn, uint64_t now_ns);

/* The deadline has come. queued: how many of the bytes that were taken have not reached the peer,
 * where the transport knows it; otherwise 0. */
GS_API void gs_http_conn_expire(struct gs_http_conn *conn, uint64_t queued, uint64_t now_ns);

/* The server is about to go down: whatever is answered from now on is told to be the last. Unlike with
 * gs_http_conn_drain, which is to follow, an idle connection stays open for a request that may have
 * come. */
GS_API void gs_http_conn_drain_soon(struct gs_http_conn *conn);

/* The server is going down: an idle connection wants to be closed, others once the request under
 * way has been answered. */
GS_API void gs_http_conn_drain(struct gs_http_conn *conn, uint64_t now_ns);

/* ---- Files ----
 * A load finds a file and reads it, if it is small, into memory; or it has a page made. Whoever drives the connection
 * takes it and runs it: at once, on another kernel thread, or one operation after the other. A load
 * does not touch its connection or service. */

GS_API struct gs_http_load *gs_http_conn_take_load(struct gs_http_conn *conn);

/* Run a whole load with blocking calls. Any kernel thread. */
GS_API void gs_http_load_run(struct gs_http_load *load);

/* Or the operations of a load, one by one. */
enum gs_http_file_op_kind {
    GS_HTTP_FILE_OPEN = 1,
    GS_HTTP_FILE_STAT,
    GS_HTTP_FILE_READ,
    GS_HTTP_FILE_CLOSE,
    GS_HTTP_FILE_MAKE /* no file: call maker->make(bytes, n, maker->data) */
};
struct gs_http_file_op {
    enum gs_http_file_op_kind kind;
    int fd;           /* of the directory for open (openat2); of the file for the others */
    const char *path; /* open */
    uint64_t flags, resolve;
    struct stat *stat;
    char *bytes; /* read (pread), make */
    size_t n;
    uint64_t offset;
    const struct gs_http_maker *maker; /* make */
};

/* The operation that is next; false when the load is complete. Its memory is the load's, until the
 * result is told. */
GS_API bool gs_http_load_next(struct gs_http_load *load, struct gs_http_file_op *ret_op);

/* Its result, as of the system call, or -errno. */
GS_API void gs_http_load_result(struct gs_http_load *load, int64_t result);

/* What makes the page that is asked for; NULL: it is a file. */
GS_API const struct gs_http_maker *gs_http_load_maker(const struct gs_http_load *load);

/* Give up a load of which no operation was begun, for want of time: it is complete, and answered with 503, or with what is at
 * hand. */
GS_API void gs_http_load_refuse(struct gs_http_load *load);

/* Hand a complete load back to its connection, which takes it. */
GS_API void gs_http_conn_loaded(struct gs_http_conn *conn, struct gs_http_load *load,
                                uint64_t now_ns);

/* The operation that brings the next part of a piece of a file into memory, for transports that
 * must see the bytes. n: at most this much. */
static inline struct gs_http_file_op gs_http_piece_read(const struct gs_http_piece *piece,
                                                        char *bytes, size_t n)
{
    return (struct gs_http_file_op){
        .kind = GS_HTTP_FILE_READ,
        .fd = piece->fd,
        .bytes = bytes,
        .n = n < piece->n ? n : (size_t)piece->n,
        .offset = piece->offset,
    };
}

#endif
