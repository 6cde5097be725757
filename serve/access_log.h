/* The access log, in the combined format: HOST - - [DATE] "REQUEST" STATUS BYTES "REFERER"
 * "USER-AGENT".
 *
 * Each worker collects lines in a writer of its own and writes whole lines at once, to a descriptor
 * that all share and that is opened for appending: so lines of several workers, or processes, do
 * not mix. */
#ifndef GS_SERVE_ACCESS_LOG_H
#define GS_SERVE_ACCESS_LOG_H

#include "serve/address.h"

#include <gossamer/http.h>
#include <stdatomic.h>

/* Open file ("-": stdout). Returns the descriptor, or -errno. */
GS_MUST_CHECK int serve_access_log_open(const char *file);

/* Open the file anew in place of fd, for instance after it was renamed. Returns 0 or -errno; then
 * the old one stays. */
int serve_access_log_reopen(const char *file, int fd);

#define SERVE_LOG_BUFFER 32768

struct serve_log_writer {
    int fd;      /* -1: no log */
    bool failed; /* and it was said */
    atomic_bool
        *has_failed; /* the same for all that write to this log; NULL: this one does so alone */
    bool begun;      /* the buffer starts with the rest of a line whose beginning was written */
    size_t used;
    void (*on_begun)(void *data); /* NULL: nobody is to be told */
    void *data;
    bool is_told; /* since the last flush */
    char buffer[SERVE_LOG_BUFFER];
};

/* Have on_begun called whenever the first line since a flush comes. */
void serve_log_on_begun(struct serve_log_writer *writer, void (*on_begun)(void *data), void *data);

void serve_log_write(struct serve_log_writer *writer, const char *host,
                     const struct gs_http_log_entry *entry);

/* Write out what was collected. Lines that can't be written, because the disk is full, are dropped,
 * with one word on stderr; the rest of a line that was begun is kept and comes first the next
 * time. */
void serve_log_flush(struct serve_log_writer *writer);

#endif
