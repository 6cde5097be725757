/* A connection driven without a socket: bytes given in any split, time made by hand, real files.
 *
 *     drive_start(&drive, NULL);
 *     drive_write(&drive, "page.html", "hello");
 *     drive_say(&drive, "GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n");
 *     drive_next(&drive, false, &answer)            200, "hello"
 *     drive_stop(&drive);
 *
 * The driver does what the connection wants and ends the program where the contract of
 * gossamer/http.h is broken: a connection that wants nothing, or that wants more beside its end. It
 * allocates nothing between start and stop, so that allocations can be counted and failed.
 */
#ifndef GS_TESTS_HTTP_DRIVE_H
#define GS_TESTS_HTTP_DRIVE_H

#include <gossamer/http.h>

#define DRIVE_START_NS (1000 * GS_SECOND)
#define DRIVE_WALL_S INT64_C(1795262400) /* at DRIVE_START_NS: Sat, 21 Nov 2026 12:00:00 GMT */
#define DRIVE_DATE "Sat, 21 Nov 2026 12:00:00 GMT"
#define DRIVE_MODIFIED_S INT64_C(784111777) /* of all files at first */
#define DRIVE_MODIFIED "Sun, 06 Nov 1994 08:49:37 GMT"

struct drive_logged {
    unsigned status;
    uint64_t body_bytes;
    int64_t received;
    char request_line[128], referer[64], user_agent[64]; /* "-": none */
};

struct drive {
    struct gs_http_service *service;
    struct gs_http_counts counts;
    struct gs_http_conn conn;
    char root[64];
    int root_fd;
    unsigned descriptors; /* that were open at the start */
    uint64_t now_ns;

    size_t split;                                           /* bytes of input at a time; 0: all */
    uint64_t take;                                          /* bytes of output at a time; 0: all */
    bool keep_output;                                       /* leave the output where it is */
    bool hold_loads;                                        /* leave loads to the test */
    int64_t (*carry_out)(const struct gs_http_file_op *op); /* in place of the kernel; or NULL */

    bool is_open, is_shut_down;
    char *input, *output;
    size_t output_n, read;          /* bytes that came, and that drive_next has gone past */
    struct drive_logged logged[64]; /* the first, of any connection */
    unsigned logged_count;
};

/* options: NULL for the defaults; its log is replaced by the driver's. Opens a connection. */
void drive_start(struct drive *drive, const struct gs_http_options *options);

/* Close the connection, remove the files and release all. Returns how many descriptors are open
 * that were not. */
int drive_stop(struct drive *drive);

/* The path of a file below the root, valid until the next call. */
const char *drive_path(const struct drive *drive, const char *name);

/* A file or a folder of the root, last modified at DRIVE_MODIFIED_S. */
void drive_write(const struct drive *drive, const char *name, const char *text);
void drive_write_bytes(const struct drive *drive, const char *name, const char *bytes, size_t n);
void drive_folder(const struct drive *drive, const char *name);
void drive_modified(const struct drive *drive, const char *name, int64_t seconds);

/* A new connection, in place of the present one. */
void drive_reopen(struct drive *drive);

/* The peer sends this; the connection is served until it wants to read, can't go on, or ends. */
void drive_say(struct drive *drive, const char *text);
void drive_say_bytes(struct drive *drive, const char *bytes, size_t n);

/* The peer ends its sending side. */
void drive_end(struct drive *drive);

/* Do what the connection wants, short of reading. */
void drive_serve(struct drive *drive);

/* Run a load to its end. */
void drive_run_load(const struct drive *drive, struct gs_http_load *load);

/* Take n bytes of the output. Returns how many there were. */
uint64_t drive_take(struct drive *drive, uint64_t n);

/* Time passes, and the deadline is told if it has come. */
void drive_pass(struct drive *drive, uint64_t ns);

/* The next answer in the output: false if there is none, or it is not whole. Texts end with NUL
 * only where the output ends. */
struct drive_answer {
    unsigned status;
    const char *head, *body;
    size_t head_n, body_n;
    bool keep_alive;
};
bool drive_next(struct drive *drive, bool is_head, struct drive_answer *ret_answer);

/* Whether the head has the field, written like "Allow: GET". */
bool drive_has(const struct drive_answer *answer, const char *field);

/* Forget the output so far. */
void drive_forget(struct drive *drive);

#endif
