/* What input and output of any descriptor needs of files. */
#ifndef GS_THREAD_FILES_H
#define GS_THREAD_FILES_H

#include "thread/worker.h"

#include <sys/types.h>

struct iovec;

struct file_transfer {
    int fd;
    bool is_read;
    const struct iovec *iov;
    int count;
    off_t offset; /* -1: the open file's own position */
};

/* At the open file's own position; file: a number that is the same for all descriptors of the same file. As gs_readv. */
ssize_t gs_file_transfer(const struct file_transfer *asked, unsigned file, uint64_t deadline_ns);

/* Whether sending so much would not wait for a disk, as far as can be told. By the worker. */
bool gs_file_is_cached(struct worker *worker, int fd, off_t from, size_t n);

/* No thread is in a call any more. */
void gs_files_reset(void);

#endif
