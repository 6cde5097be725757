/* HTTP/1.0 and 1.1 for files, without I/O: received bytes go in, bytes to send come out.
 *
 *     gs_http_conn_init(&conn, service, now_ns);
 *     gs_http_conn_receive(&conn, bytes, n, now_ns);          bytes read from the socket
 *     if (gs_http_conn_wants(&conn) & GS_HTTP_WRITE) {
 *         unsigned count = gs_http_conn_output(&conn, pieces, 8);
 *         gs_http_conn_sent(&conn, bytes_written, now_ns);
 *     }
 *
 * This module knows no sockets, threads, loops or clocks. The caller reports each event to the
 * connection, with the time; the connection reports which operations it waits for (a set of
 * GS_HTTP_READ, ..., as with OpenSSL's WANT_READ) and its deadline. The caller performs these
 * operations in the way of its concurrency architecture, so all architectures send the same bytes
 * for the same request.
 *
 * Threads: a connection and its service are used by one kernel thread at a time. The functions need
 * at most 1.5 KiB of stack; in `gossamer serve`, whose connections speak HTTP/2 too, 8 KiB.
 */
#ifndef GOSSAMER_HTTP_H
#define GOSSAMER_HTTP_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

GS_BEGIN_DECLS

struct gs_http2;
struct gs_http_compressor;
struct gs_http_conn;
struct gs_http_guard;
struct gs_http_load;
struct gs_http_output;
struct gs_http_page;
struct gs_http_site;

/* ---- Options of an HTTP service ----
 *
 *     struct gs_http_options options;
 *     gs_http_options_default(&options);
 *     options.idle_timeout_ns = 5 * GS_SECOND;
 */

/* An entry of the access log: one request and its response. The strings are valid during the call
 * only. */
struct gs_http_log_entry {
    /* NUL-terminated; NULL if the request had none. The request line has request_line_length bytes:
     * what was received of it. In a malformed request it may contain any byte except CR and LF,
     * even NUL. */
    const char *request_line, *referer, *user_agent;
    const char *host;      /* that the request is for, as it was sent; only with logs_host */
    const char *user;      /* that the request names, where users are asked for; verified unless the
                       * status is 401 or 503 */
    const char *forwarded; /* of options.forwarded, with the values of several lines joined */
    size_t request_line_length;
    unsigned status;
    uint64_t body_bytes; /* of the response, that were sent */
    int64_t received;    /* wall-clock seconds at which the request was complete */
    uint64_t started_ns; /* the same on the clock of now_ns; if several responses were sent at once,
                          * of the first of them */
};

/* Called once a response has been sent, or once the connection ends before that. entry: NULL if
 * there was no memory for it. */
typedef void gs_http_log_fn(const struct gs_http_conn *conn, const struct gs_http_log_entry *entry,
                            void *data);

/* Why a request was refused with 403 or 404, or, from GS_HTTP_REFUSED_BYTES on, with 400. */
enum gs_http_refusal {
    GS_HTTP_REFUSED_NOT_FOUND,
    GS_HTTP_REFUSED_DOT_FILE,   /* a name begins with a dot */
    GS_HTTP_REFUSED_LINK,       /* a symbolic link leads out of the root */
    GS_HTTP_REFUSED_LINK_LOOP,  /* too many symbolic links */
    GS_HTTP_REFUSED_PERMISSION, /* the kernel refuses access */
    GS_HTTP_REFUSED_NO_INDEX,   /* a directory without an index file, */
    GS_HTTP_REFUSED_LIST_SIZE,  /* a directory that has too many entries to be listed */
    GS_HTTP_REFUSED_PLAIN,      /* the path is for users, and the connection has no TLS */
    GS_HTTP_REFUSED_KIND,       /* neither a regular file nor a directory */
    GS_HTTP_REFUSED_BYTES,      /* a control character, or a line that does not end with CR LF */
    GS_HTTP_REFUSED_LINE,       /* the request line */
    GS_HTTP_REFUSED_PATH,       /* a malformed escape, or ".." above the root */
    GS_HTTP_REFUSED_FIELD,      /* a header field */
    GS_HTTP_REFUSED_HOST,       /* no Host field */
    GS_HTTP_REFUSED_FRAMING,    /* the length of the body is not clear */
    GS_HTTP_REFUSED_BODY,       /* the chunks of the body */
};

/* Called for each of these responses, when it is created. text: n bytes, valid during the call
 * only: for 403 and 404 the path below the root, decoded; for 400 what was received of the request
 * line, which may contain any byte. */
typedef void gs_http_refused_fn(unsigned status, enum gs_http_refusal reason, const char *text,
                                size_t n, void *data);

/* A page that is generated for each request rather than read from a file. */
struct gs_http_generator {
    const char *path; /* below the root, without a leading slash */
    const char *media_type;
    size_t max_size;

    /* Write the page, at most n bytes. It may be called on any kernel thread, concurrently, and on
     * whatever stack the architecture has there. Returns the length, or -errno: the response is
     * 503 for -EAGAIN and -ENOMEM, otherwise 500. */
    int64_t (*generate)(char *bytes, size_t n, void *data);
    void *data;
    bool is_quiet; /* not logged, and not counted for max_requests, unless it has failed */
};

/* Bytes and lines of the fields that are added to a response. */
#define GS_HTTP_FIELDS_MAX 8192
#define GS_HTTP_FIELD_LINES_MAX 64

struct gs_http_options {
    size_t max_request_line;    /* bytes; above: 414 */
    size_t max_header;          /* bytes of all fields; above: 431 */
    unsigned max_fields;        /* above: 431 */
    uint64_t max_body;          /* bytes of a request's body, which is discarded; above: 413 */
    uint64_t header_timeout_ns; /* from a request's first byte to the end of its header */
    uint64_t idle_timeout_ns;   /* between requests */

    /* A transfer must average min_rate bytes a second over each window of rate_window_ns; a
     * min_rate of 0 means no limit. */
    uint64_t rate_window_ns;
    uint64_t min_rate;

    uint64_t max_requests;           /* per connection; 0: no limit */
    bool portable_etags;             /* without the inode: copies of a file have the same ETag */
    size_t max_cached_file;          /* bytes; larger files are sent from their descriptor */
    size_t max_cache;                /* bytes of all cached files */
    unsigned max_cached_descriptors; /* of larger files, kept open */
    /* Called like fstat, for each request, to check whether a cached open file has changed. NULL: a
     * load checks it, which takes longer; for callers that would delay others if fstat waited. */
    int (*file_state)(int fd, struct stat *ret_stat);
    /* Called before a connection of HTTP/2 keeps an open file beside another one: if there are too
     * few descriptors for that, the request waits. NULL: there always are enough. */
    bool (*may_open_more)(void);
    bool dotfiles;        /* serve names that begin with a dot */
    bool follow_symlinks; /* also those that lead out of the root */
    uint8_t listing;      /* of directories without an index file, if there are no sites: 1 as HTML,
                           * 2 as JSON; 0: they are refused */
    gs_http_log_fn *log;  /* NULL: no log */
    void *log_data;
    bool logs_host;              /* entries of the log have the host */
    const char *forwarded;       /* name, in lower case, of a field that the log gets; NULL: none */
    gs_http_refused_fn *refused; /* NULL: not called */
    void *refused_data;
    const char *fields;                         /* lines for each response, or NULL; borrowed */
    uint16_t redirect_port;                     /* of gs_http_conn_redirect */
    const struct gs_http_generator *generators; /* borrowed; they take precedence over files */
    unsigned generator_count;
    const struct gs_http_guard *guards; /* if there are no sites; borrowed; private */
    unsigned guard_count;
    const struct gs_http_site *sites; /* borrowed; private */
    unsigned site_count;              /* 0: one site, for all hosts */
    bool precompressed; /* FILE.br, FILE.zst and FILE.gz are FILE, for clients that accept them */
    const struct gs_http_compressor *compressor; /* borrowed; private */
};

/* Get the defaults, which `gossamer serve` uses, too. */
GS_API void gs_http_options_default(struct gs_http_options *ret_options);

/* ---- HTTP services: the state that the connections of one worker share ----
 *
 *     struct gs_http_counts counts = {0};
 *     err = gs_http_service_new(&options, root_fd, &counts, &service);
 *     gs_http_service_set_wall_clock(service, gs_clock_now(), gs_clock_wall());
 */

/* A histogram of the times from a request to the end of its response, measured with now_ns: bucket
 * i counts the times below 2^i and not below 2^(i-1) microseconds; the last bucket also counts all
 * longer ones. */
#define GS_HTTP_LATENCIES 28

/* Written by one kernel thread at a time, word by word, so that other threads may read each word at
 * any time. */
struct gs_http_counts {
    uint64_t connections;
    uint64_t closed;        /* of these */
    uint64_t requests;      /* with a response, of whatever status */
    uint64_t redirections;  /* responses of 300 to 399 */
    uint64_t client_errors; /* responses of 400 to 499 */
    uint64_t server_errors; /* responses of 500 and above */
    uint64_t bytes;         /* sent */
    uint64_t timeouts;      /* connections closed because the peer was too slow */
    uint64_t broken_off;    /* responses: their file has changed, or could not be sent */
    uint64_t latency_ns;    /* sum over all responses that were sent */
    uint64_t latencies[GS_HTTP_LATENCIES];

    uint64_t http2_connections; /* of the connections */
    uint64_t http2_requests;    /* of the requests */
    uint64_t http2_resets;      /* streams that the peer has reset before their end */
    uint64_t http2_refused;     /* streams, because there were too many, or of too much memory */
    uint64_t http2_abuses;      /* connections ended because the peer made work without end, */
    uint64_t http2_overloads;   /* and because it made them take too much memory */
};

struct gs_http_service;

/* Create a service; the options are copied. root_fd: the directory to serve, unless there are
 * sites; borrowed; -1: only generated pages are served. counts: the counters to update, for
 * instance in memory shared between processes; borrowed. Returns 0, -ENOMEM, or -EINVAL if the
 * fields of the options are more than may be, or the sites are not valid; -EEXIST if two of these
 * are for the same host. */
GS_API GS_MUST_CHECK int gs_http_service_new(const struct gs_http_options *options, int root_fd,
                                             struct gs_http_counts *counts,
                                             struct gs_http_service **ret_service);

/* Free the service, after gs_http_conn_done of the last connection. NULL is accepted. */
GS_API void gs_http_service_free(struct gs_http_service *service);

/* Set the wall-clock time at now_ns, for the Date field. The caller repeats this at least twice a
 * second while connections are active. */
GS_API void gs_http_service_set_wall_clock(struct gs_http_service *service, uint64_t now_ns,
                                           uint64_t wall_ns);

/* Returns when gs_http_service_expire is to be called, on the clock of now_ns; GS_NEVER: nothing is
 * cached. */
GS_API uint64_t gs_http_service_deadline(const struct gs_http_service *service);

/* Release the cached files, in memory and open, that were not requested in the last two seconds.
 * This frees the disk space of files that were removed or replaced. */
GS_API void gs_http_service_expire(struct gs_http_service *service, uint64_t now_ns);

/* Returns the number of files that all services of the process keep open, to send their content or
 * because the open descriptor is cached. */
GS_API uint64_t gs_http_open_files(void);

/* ---- HTTP connections ---- */

/* The operations that a connection waits for. */
enum gs_http_want {
    GS_HTTP_READ = 1,     /* receive bytes: gs_http_conn_receive or gs_http_conn_receive_eof */
    GS_HTTP_WRITE = 2,    /* send output: gs_http_conn_output, gs_http_conn_sent */
    GS_HTTP_LOAD = 4,     /* load a file: gs_http_conn_take_load, gs_http_conn_loaded */
    GS_HTTP_SHUTDOWN = 8, /* shut down the sending side: gs_http_conn_shut_down */
    GS_HTTP_CLOSE = 16,   /* close the connection; never together with another */
};

/* In the caller's storage; the members are private. */
struct gs_http_conn {
    struct gs_http_service *service;
    struct gs_http_output *output; /* NULL: nothing to send */
    struct gs_http_load *load;     /* requested or in progress */

    /* Received bytes that are incomplete or not handled yet; NULL: none. The head of a request that
     * waits for its body or its file is the first head_length bytes; the first `scanned` bytes are
     * known not to contain the end of a head. */
    union {
        char *input;
        struct gs_http2 *http2; /* of a connection that speaks HTTP/2 */
    };
    uint32_t input_length, input_size;
    uint32_t scanned;
    uint32_t head_length;

    uint8_t state;
    uint8_t phase : 7;
    uint8_t is_secure : 1;
    uint8_t wants;
    uint8_t flags;
    uint32_t requests;
    uint64_t deadline_ns;
    uint64_t transferred; /* bytes, in this window of a transfer */
    uint64_t body[3];     /* progress of discarding a request's body; then of closing; before the
                           * first request, whether it must be of HTTP/1 */
};

/* Initialise the connection, which wants to read at first. */
GS_API void gs_http_conn_init(struct gs_http_conn *conn, struct gs_http_service *service,
                              uint64_t now_ns);

/* Redirect all requests of the connection (308) to https, at the port of the service's options;
 * responses have no `fields`. Called at once after gs_http_conn_init. */
GS_API void gs_http_conn_redirect(struct gs_http_conn *conn);

/* Tell that the connection has TLS, without which some paths may not be requested. Called at once
 * after gs_http_conn_init. */
GS_API void gs_http_conn_set_secure(struct gs_http_conn *conn);

/* Release the connection's memory; responses that were not sent completely are logged with the
 * bytes that were. A load that was taken must have been returned with gs_http_conn_loaded. */
GS_API void gs_http_conn_done(struct gs_http_conn *conn);

/* Returns the operations that the connection waits for: bits of enum gs_http_want. */
static inline unsigned gs_http_conn_wants(const struct gs_http_conn *conn)
{
    return conn->wants;
}

/* Returns the time at which gs_http_conn_expire is to be called, on the clock of now_ns; GS_NEVER:
 * no limit. */
static inline uint64_t gs_http_conn_deadline(const struct gs_http_conn *conn)
{
    return conn->deadline_ns;
}

/* Returns whether no request is in progress: every request has been responded to, all output was
 * sent, and no part of another request has been received. */
GS_API bool gs_http_conn_is_idle(const struct gs_http_conn *conn);

/* Returns whether the connection only waits for a request's head, or the rest of one. Closing it
 * then interrupts no response. */
GS_API bool gs_http_conn_awaits_head(const struct gs_http_conn *conn);

/* Returns whether it waits for another request after its first. */
GS_API bool gs_http_conn_is_kept_alive(const struct gs_http_conn *conn);

/* Returns the start of the wait, or of the transfer or its last window, that the deadline limits;
 * 0: there is no deadline. */
GS_API uint64_t gs_http_conn_phase_start(const struct gs_http_conn *conn);

/* ---- Input and output of an HTTP connection ---- */

/* Pass bytes received from the peer; borrowed during the call: what cannot be handled at once is
 * copied. Only while GS_HTTP_READ is set. */
GS_API void gs_http_conn_receive(struct gs_http_conn *conn, const char *bytes, size_t n,
                                 uint64_t now_ns);

/* Report that the peer has shut down its sending side. */
GS_API void gs_http_conn_receive_eof(struct gs_http_conn *conn, uint64_t now_ns);

/* Get the next pieces of output, in order. A piece, of memory or of a file, is unchanged until
 * gs_http_conn_sent passes its end. Returns the number of pieces stored, at most max_count. */
struct gs_http_piece {
    const char *bytes; /* NULL: from a file */
    uint64_t n;
    uint64_t offset;
    int fd;                          /* borrowed */
    const struct gs_http_page *page; /* borrowed; private */
};
GS_API unsigned gs_http_conn_output(const struct gs_http_conn *conn, struct gs_http_piece *pieces,
                                    unsigned max_count);

/* Returns whether a piece of a file can still be sent, given the state of its descriptor (fstat).
 * Call this before each read of a part of the piece. If the file has changed since the response was
 * created, break the response off, because it would mix two versions. */
GS_API bool gs_http_piece_is_current(const struct gs_http_piece *piece, const struct stat *stat);

/* Report that n bytes of the output were sent. */
GS_API void gs_http_conn_sent(struct gs_http_conn *conn, uint64_t n, uint64_t now_ns);

/* Report that the output cannot be sent: the peer is gone. */
GS_API void gs_http_conn_abort(struct gs_http_conn *conn);

/* Report that the output cannot be sent completely because its file has changed, or cannot be read;
 * it is counted. The peer notices by the end of the connection. */
GS_API void gs_http_conn_break_off(struct gs_http_conn *conn);

/* Restart the measurement of how fast the peer takes the output, after the caller could not send
 * for a while because it waited for a disk. */
GS_API void gs_http_conn_restart_rate(struct gs_http_conn *conn, uint64_t now_ns);

/* Report that the sending side has been shut down, as GS_HTTP_SHUTDOWN requested. */
GS_API void gs_http_conn_shut_down(struct gs_http_conn *conn, uint64_t now_ns);

/* ---- The end of an HTTP connection ----
 *
 *     if (now_ns >= gs_http_conn_deadline(&conn))
 *         gs_http_conn_expire(&conn, 0, now_ns);
 */

/* Report that the deadline has passed. queued: the number of sent bytes that have not reached the
 * peer, where the transport knows it; otherwise 0. */
GS_API void gs_http_conn_expire(struct gs_http_conn *conn, uint64_t queued, uint64_t now_ns);

/* Send "Connection: close" with all later responses, since the server will shut down soon. Unlike
 * with gs_http_conn_drain, which is to follow, an idle connection stays open for a request that may
 * be in flight. */
GS_API void gs_http_conn_disable_keep_alive(struct gs_http_conn *conn);

/* Shut down gracefully: an idle connection wants to be closed at once, others after the response to
 * the current request. */
GS_API void gs_http_conn_drain(struct gs_http_conn *conn, uint64_t now_ns);

/* ---- Loads of an HTTP connection ----
 * A load finds a file and, if it is small, reads it into memory; or it calls a generator. The
 * caller takes the load from the connection and runs it: at once, on another kernel thread, or
 * operation by operation. A load does not access its connection or service.
 *
 *     struct gs_http_load *load = gs_http_conn_take_load(&conn);
 *     gs_http_load_run(load);       waits for the disk
 *     gs_http_conn_loaded(&conn, load, gs_clock_now());
 */

/* Take the load that the connection wants (GS_HTTP_LOAD). Returns the load, which goes back with
 * gs_http_conn_loaded. */
GS_API struct gs_http_load *gs_http_conn_take_load(struct gs_http_conn *conn);

/* Run a complete load with blocking calls, on any kernel thread. */
GS_API void gs_http_load_run(struct gs_http_load *load);

/* The operations of a load, to run it step by step instead. */
enum gs_http_file_op_kind {
    GS_HTTP_FILE_OPEN = 1,
    GS_HTTP_FILE_STAT,
    GS_HTTP_FILE_READ,
    GS_HTTP_FILE_CLOSE,
    GS_HTTP_FILE_GENERATE, /* call generator->generate(bytes, n, generator->data) */
    GS_HTTP_FILE_WORK      /* call work(data), which takes long; the result is 0, or why it was not
                            * called */
};
struct gs_http_file_op {
    enum gs_http_file_op_kind kind;
    int fd;           /* of the directory for open (openat2); of the file for the others */
    const char *path; /* open */
    uint64_t flags, resolve;
    struct stat *stat;
    char *bytes; /* read (pread), generate */
    size_t n;
    uint64_t offset;
    const struct gs_http_generator *generator; /* generate */
    void (*work)(void *data);                  /* work; on any kernel thread */
    void *data;                                /* in the heap */
};

/* Get the next operation. Its memory belongs to the load and is valid until
 * gs_http_load_set_result. Returns false if the load is complete. */
GS_API bool gs_http_load_next(struct gs_http_load *load, struct gs_http_file_op *ret_op);

/* Set the result of the operation: that of the system call, or -errno. The load takes an opened
 * descriptor, and may close it. */
GS_API void gs_http_load_set_result(struct gs_http_load *load, int64_t result);

/* Returns the generator of the requested page; NULL: it is a file. */
GS_API const struct gs_http_generator *gs_http_load_generator(const struct gs_http_load *load);

/* Complete a load without running it, before its first operation, because of overload: the response
 * is a stale page from the cache (stale-if-error) or 503. */
GS_API void gs_http_load_refuse(struct gs_http_load *load);

/* Return a complete load to its connection, which takes it. */
GS_API void gs_http_conn_loaded(struct gs_http_conn *conn, struct gs_http_load *load,
                                uint64_t now_ns);

/* Returns the operation that reads the beginning of a piece of a file into memory, at most n bytes,
 * for transports that cannot send from a descriptor. */
static inline struct gs_http_file_op gs_http_piece_read(const struct gs_http_piece *piece,
                                                        char *bytes, size_t n)
{
    struct gs_http_file_op op;
    memset(&op, 0, sizeof op);
    op.kind = GS_HTTP_FILE_READ;
    op.fd = piece->fd;
    op.bytes = bytes;
    op.n = n < piece->n ? n : (size_t)piece->n;
    op.offset = piece->offset;
    return op;
}

GS_END_DECLS

#endif
