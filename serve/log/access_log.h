/* The access log.
 *
 * Each worker collects lines in a writer of its own and writes whole lines at once, to a descriptor
 * that all share. That is a pipe, the user's or log_relay.h's, or a file that is opened for
 * appending. A line is no longer than what is written to a pipe at once or not at all: so lines of
 * several workers, or processes, do not mix, and no reader gets a part of one. */
#ifndef GS_SERVE_ACCESS_LOG_H
#define GS_SERVE_ACCESS_LOG_H

#include "serve/log/line.h"

#include <stdatomic.h>

/* Open file ("-": stdout), so that writes to a pipe or a terminal do not block. Returns the
 * descriptor, or -errno; -ENXIO: it is a pipe that nobody reads. */
GS_MUST_CHECK int serve_access_log_open(const char *file);

/* Reopen the file in place of fd, for instance after it was renamed. Returns 0, or -errno, and fd
 * stays as it is; -ENXIO: it is a pipe that nobody reads. */
int serve_access_log_reopen(const char *file, int fd);

/* The same, and report on stderr if it fails. Returns whether it was reopened. */
bool serve_access_log_reopen_or_warn(const char *file, int fd);

#define SERVE_LOG_BUFFER 32768

/* What all writers of a log have lost, in memory that the server's processes share; initially
 * zero. */
struct serve_log_losses {
    _Atomic(uint64_t) lines;
    _Atomic(uint64_t) report_ns; /* when the next report is due */
    atomic_bool has_given_up;    /* at the end, a writer waited for room in vain */
};

struct serve_log_writer {
    int fd;          /* -1: no log */
    bool is_relayed; /* each write begins with an end of line (log_relay.h) */
    struct serve_log_format format;
    struct serve_log_losses *losses; /* NULL: they are not counted */
    bool has_partial_line; /* the buffer starts with the rest of a line that was written in part */
    size_t used;
    void (*on_first_line)(void *data); /* NULL: none */
    void *data;
    bool is_notified; /* since the last flush */
    char buffer[SERVE_LOG_BUFFER];
};

/* Have on_first_line called for the first line after each flush. */
void serve_log_on_first_line(struct serve_log_writer *writer, void (*on_first_line)(void *data),
                             void *data);

/* line->entry: NULL: there was no memory for it. */
void serve_log_write(struct serve_log_writer *writer, const struct serve_log_line *line);

/* Write what was collected, without waiting. What a pipe has no room for stays in the buffer; lines
 * for which the buffer has no room then are dropped, and so are those that can't be written because
 * the disk is full. Losses are counted, and reported on stderr at most once a minute. A line that a
 * file got in part is taken back; the rest of one that a socket or a terminal got in part is kept,
 * and is written first the next time. Returns whether the buffer is empty. */
bool serve_log_flush(struct serve_log_writer *writer);

/* Count lines that can't be written because of this error, and report them from time to time:
 * -EAGAIN: the reader is too slow; -EBADMSG: they are no lines of ours. */
void serve_log_lose(struct serve_log_writer *writer, uint64_t lines, int err);

/* Write the last lines: what a pipe has no room for within half a second is dropped. */
void serve_log_finish(struct serve_log_writer *writer);

/* At the end, report on stderr how many lines were lost, if any. */
void serve_log_report_losses(const struct serve_log_losses *losses);

#endif
