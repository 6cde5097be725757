/* `gossamer serve` in a process of its own with fault injection, and the folder that it serves. */
#ifndef GS_TESTS_FAULT_SERVER_H
#define GS_TESTS_FAULT_SERVER_H

#include "tests/fault/faults.h"

#include <stddef.h>
#include <sys/types.h>

/* The folder contains small.txt, large.bin, huge.bin, folder/index.html and empty/. */
#define SERVER_SMALL 305
#define SERVER_LARGE 200000
#define SERVER_HUGE (64 << 20) /* more than the buffers of two sockets */
#define SERVER_INDEX "<p>index\n"

struct server {
    pid_t pid;
    int output_fd;         /* the read end of a pipe from the server's stdout */
    unsigned port;         /* of the first listening socket; 0: the server did not start */
    int live, descriptors; /* measured values, to which the server must return */
};

/* Returns the folder. The first call creates it, its files, and the texts of small.txt and
 * large.bin; it is removed at exit. */
const char *server_folder(void);
extern char server_small[SERVER_SMALL + 1], server_large[SERVER_LARGE + 1];

/* Returns the value of the environment variable GS_FAULT_ARCH, or "event". */
const char *server_arch(void);

/* Change the modification time of small.txt. */
void server_touch(void);

/* Start a server with the usual arguments and these, which end with NULL. A server that is still
 * running is killed. Returns NULL, or the problem if the server hangs; the test itself judges a
 * server that exits. */
const char *server_start(struct server *server, const char *const *arguments);

/* Wait until all threads of the server wait and, once it has been measured, it has
 * no connection. */
void server_wait_idle(const struct server *server);

/* Wait until the server closes nothing any more, and measure its allocations and descriptors, for
 * server_settled. */
void server_measure(struct server *server);

/* Wait until the server's allocations and descriptors are as measured. Returns NULL or the
 * difference. */
const char *server_settled(const struct server *server);

unsigned server_descriptors(const struct server *server);

/* Read what was added to the log, once it has as many lines that contain `mark` as expected, or
 * after two seconds. Every line must be complete. *ret_marked is how many contain it. Returns NULL
 * or the problem. */
const char *server_read_log(const char *mark, unsigned expected, unsigned *ret_marked);

/* Returns what the server has written to stderr since its start, valid until the next call, and the
 * number of lines. */
const char *server_stderr(unsigned *ret_lines);

/* Wait for the server to exit, after SIGTERM if `terminate`. Returns NULL and the exit status, or
 * the problem if it hangs or crashed. */
const char *server_end(struct server *server, bool terminate, int *ret_status);

#endif
