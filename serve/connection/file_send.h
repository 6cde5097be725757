/* Sending a part of a file that has not changed since its answer was started. */
#ifndef GS_SERVE_FILE_SEND_H
#define GS_SERVE_FILE_SEND_H

#include "serve/connection/connection.h"

/* The file has changed: what is left would not belong to what was sent. */
#define SERVE_FILE_CHANGED (-ESTALE)

/* Returns 0, SERVE_FILE_CHANGED or -errno; SERVE_FILE_COPY: the file has changed lately, or it is
 * known that the kernel refuses sendfile to the process; -ENOBUFS: it has changed so lately that
 * the write may not have ended. */
#define SERVE_FILE_COPY 1
int serve_file_check(const struct serve_output *output);

/* Send some of it, as serve_output_send. Where the kernel refuses sendfile, for this file or to the
 * process, if the file has changed lately, and if it is encrypted, it is read and sent. */
ssize_t serve_file_send(struct serve_output *output, int fd);

/* Whether the result is that of a sendfile that is refused; if so, this is noted. */
bool serve_note_sendfile(ssize_t n);

/* What is read at a time then, and sent: any kernel thread, as serve_output_send. */
#define SERVE_FILE_COPY_SIZE ((size_t)64 << 10)
ssize_t serve_file_send_read(const struct serve_output *output, int fd, const char *bytes,
                             size_t n);

/* Copy an output with parts of a file, which `read` reads as pread(2), and check the file. Returns
 * how many bytes can be sent, of *ret_bytes, which `free` releases; 0: the file is shorter; or
 * -errno. */
ssize_t serve_file_copy(const struct serve_output *output,
                        ssize_t (*read)(int fd, void *bytes, size_t n, off_t offset),
                        char **ret_bytes);

/* Whether a send of a part of a file failed because of the file, and not of the peer. */
bool serve_file_has_failed(ssize_t n);

#endif
