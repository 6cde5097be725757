/* `gossamer serve` in a process of its own, whose calls can be made to fail, and the folder that it
 * serves. */
#ifndef GS_TESTS_FAULT_SERVER_H
#define GS_TESTS_FAULT_SERVER_H

#include "tests/fault/faults.h"

#include <stddef.h>
#include <sys/types.h>

/* small.txt, large.bin, huge.bin, folder/index.html and empty/. */
#define SERVER_SMALL 305
#define SERVER_LARGE 200000
#define SERVER_HUGE (64 << 20) /* more than two sockets hold */
#define SERVER_INDEX "<p>index\n"

struct server {
    pid_t pid;
    int output_fd;         /* its stdout */
    unsigned port;         /* the first that it listens at; 0: it did not get so far */
    int live, descriptors; /* where they come back to */
};

/* The folder, its files, and the texts of small.txt and large.bin; made at the first call, removed
 * at the end. */
const char *server_folder(void);
extern char server_small[SERVER_SMALL + 1], server_large[SERVER_LARGE + 1];

/* What GS_FAULT_ARCH in the environment says, or "event". */
const char *server_arch(void);

/* small.txt becomes another file, of the same text. */
void server_touch(void);

/* Start it with these words added to the usual ones; NULL ends them. One that the test before left
 * is killed. Returns NULL, or what is wrong: only that it hangs, for that it ends by itself is for
 * the test to judge. */
const char *server_start(struct server *server, const char *const *words);

/* Wait until it has no connection, and waits in all its threads, or for 300 ms. */
void server_rest(const struct server *server);

/* Take what it holds now for what it shall come back to. */
void server_measure(struct server *server);

/* Wait until it holds that again. Returns NULL, or what it has too much or too little of. */
const char *server_settled(const struct server *server);

unsigned server_descriptors(const struct server *server);

/* The log since the last call: every line must be whole. ret_marked: how many hold this text.
 * Returns NULL or the problem. */
const char *server_read_log(const char *mark, unsigned *ret_marked);

/* What it said on stderr since its start, valid until the next call, and how many lines. */
const char *server_said(unsigned *ret_lines);

/* Ask it to end, if `asked`, and wait. Returns NULL and its exit status, or that it hangs
 * or crashed. */
const char *server_end(struct server *server, bool asked, int *ret_status);

#endif
