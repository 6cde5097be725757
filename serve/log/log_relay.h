/* The access log as a regular file, a socket or a terminal: writes to a file wait for its disk, and
 * the others take lines in part, so one kernel thread of the first process makes them, and all
 * others write to a pipe, which never blocks. If the disk does not answer, the pipe becomes full,
 * and lines are lost as with any other pipe (access_log.h).
 *
 *     workers, processes --> log_fd: a pipe --> the thread --> the file
 *
 * Lines come into the pipe whole, and each write of ours begins with an end of line. So what
 * another process has written there, and is no line, stays apart; it is dropped and counted if it
 * is longer than a line, or if it does not end when the pipe is empty.
 *
 * The thread sleeps a moment before it reads, so that it writes many lines at once. */
#ifndef GS_SERVE_LOG_RELAY_H
#define GS_SERVE_LOG_RELAY_H

#include "serve/log/access_log.h"

#include <pthread.h>

/* In the caller's storage, all zero at first; the members are private, except has_thread and
 * is_relaying. */
struct serve_log_relay {
    struct serve_log_writer writer; /* to the file */
    const char *file;
    int read_fd; /* of the pipe */
    int wake_fd; /* an eventfd */
    bool is_open, has_thread;
    bool is_skipping; /* what it reads, up to an end of line */
    bool is_relaying; /* also in a process that has left it */
    atomic_bool must_reopen, is_over;
    pthread_t thread;
};

/* If *fd is a regular file, which was opened by that name, a socket or a terminal, put a pipe in
 * its place. Where that fails, it stays. */
void serve_log_relay_open(struct serve_log_relay *relay, const char *file, int *fd);

/* Start the thread, if there is a pipe. Until then, what is written stays in the pipe. Returns 0 or
 * -errno. */
GS_MUST_CHECK int serve_log_relay_start(struct serve_log_relay *relay,
                                        struct serve_log_losses *losses);

/* Have the file opened again, after what is in the pipe has been written. */
void serve_log_relay_reopen(struct serve_log_relay *relay);

/* In a process that was forked: it needs only the pipe. */
void serve_log_relay_leave(struct serve_log_relay *relay);

/* When nothing writes to the pipe any more: write what is in it, and end the thread. A disk that
 * does not answer is waited for a second; then false is returned: the thread goes on using the
 * relay and the losses. */
bool serve_log_relay_stop(struct serve_log_relay *relay);

#endif
