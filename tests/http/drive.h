/* A driver for a connection without a socket: input in any split, simulated time, real files.
 *
 *     drive_start(&drive, NULL);
 *     drive_write(&drive, "page.html", "hello");
 *     drive_send(&drive, "GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n");
 *     drive_next_response(&drive, false, &response)            200, "hello"
 *     drive_stop(&drive);
 *
 * The driver performs the operations that the connection waits for, and aborts the program if the
 * contract of gossamer/http.h is violated: a connection that waits for nothing, or for another
 * operation besides close. It does not allocate between start and stop, so a test can count the
 * allocations and make them fail.
 */
#ifndef GS_TESTS_HTTP_DRIVE_H
#define GS_TESTS_HTTP_DRIVE_H

#include <gossamer/http.h>

#define DRIVE_START_NS (1000 * GS_SECOND)
#define DRIVE_WALL_S INT64_C(1795262400) /* at DRIVE_START_NS: Sat, 21 Nov 2026 12:00:00 GMT */
#define DRIVE_DATE "Sat, 21 Nov 2026 12:00:00 GMT"
#define DRIVE_MODIFIED_S INT64_C(784111777) /* initial modification time of all files */
#define DRIVE_MODIFIED "Sun, 06 Nov 1994 08:49:37 GMT"

struct drive_log_entry {
    unsigned status;
    uint64_t body_bytes;
    int64_t received;
    char request_line[128], referer[64], user_agent[64]; /* "-": missing */
};

struct drive {
    struct gs_http_service *service;
    struct gs_http_counts counts;
    struct gs_http_conn conn;
    char root[64];
    int root_fd;
    unsigned descriptors; /* number of open descriptors at the start */
    uint64_t now_ns;

    size_t input_chunk;    /* bytes of input per call; 0: all */
    uint64_t output_chunk; /* bytes of output per call; 0: all */
    bool keep_output;      /* do not send the output */
    bool hold_loads;       /* the test runs loads itself */

    /* If not NULL: called instead of the system calls of a load. */
    int64_t (*run_op)(const struct gs_http_file_op *op);

    bool is_open, is_shut_down;
    char *input, *output;
    size_t output_n, parsed; /* bytes sent, and bytes that drive_next_response has consumed */
    struct drive_log_entry logged[64]; /* the first entries, of all connections */
    unsigned logged_count, lost_entries;
};

/* Start the driver with one connection. options: NULL for the defaults; `log` is replaced by the
 * driver's. */
void drive_start(struct drive *drive, const struct gs_http_options *options);

/* Close the connection, remove the files and release all memory. Returns the number of leaked
 * descriptors. */
int drive_stop(struct drive *drive);

/* The path of a file below the root, valid until the next call. */
const char *drive_path(const struct drive *drive, const char *name);

/* Create a file, last modified at DRIVE_MODIFIED_S, or a directory in the root. */
void drive_write(const struct drive *drive, const char *name, const char *text);
void drive_write_bytes(const struct drive *drive, const char *name, const char *bytes, size_t n);
void drive_mkdir(const struct drive *drive, const char *name);
void drive_set_mtime(const struct drive *drive, const char *name, int64_t seconds);

/* Replace the connection by a new one. */
void drive_reopen(struct drive *drive);

/* Send input to the connection, which is served until it waits for input, is blocked, or closes. */
void drive_send(struct drive *drive, const char *text);
void drive_send_bytes(struct drive *drive, const char *bytes, size_t n);

/* Shut down the sending side of the client. */
void drive_send_eof(struct drive *drive);

/* Perform the operations that the connection waits for, except reading. */
void drive_serve(struct drive *drive);

/* Run a complete load. */
void drive_run_load(const struct drive *drive, struct gs_http_load *load);

/* Receive n bytes of the output. Returns the number of bytes that were available. */
uint64_t drive_take_output(struct drive *drive, uint64_t n);

/* Advance the time, and report the deadline if it has passed. */
void drive_advance_time(struct drive *drive, uint64_t ns);

/* Parse the next response in the output. Returns false if it is missing or incomplete. Texts are
 * NUL-terminated only at the end of the output. */
struct drive_response {
    unsigned status;
    const char *head, *body;
    size_t head_length, body_length;
    bool keep_alive;
};
bool drive_next_response(struct drive *drive, bool is_head, struct drive_response *ret_result);

/* Returns whether the head contains the field, for instance "Allow: GET". */
bool drive_has_field(const struct drive_response *response, const char *field);

/* Discard the output so far. */
void drive_discard_output(struct drive *drive);

#endif
