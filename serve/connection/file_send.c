/* sendfile hands the pages of the file to the socket: they are checked at once before, each time,
 * but may change until the peer has received them. So a file that has changed lately, and may do so
 * again, is copied: then the check after the read is the last word. */
#include "serve/connection/file_send.h"

#include "http/page.h"

#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>

/* A filter of system calls, or a kernel without sendfile, does not change its mind. */
static atomic_bool is_refused;

/* A write sets the time of the change first, and then replaces the bytes. */
#define WRITE_NS (10 * GS_MILLISECOND)

int serve_file_check(const struct serve_output *output)
{
    const struct stat *expected = &output->page->stat;
    struct stat stat;
    int err = gs_sys_fstat(output->fd, &stat);
    if (err)
        return err;
    if (!gs_http_page_has_same_content(expected, &stat))
        return SERVE_FILE_CHANGED;
    bool must_copy = atomic_load_explicit(&is_refused, memory_order_relaxed);
    if (!output->page->is_settled) {
        uint64_t unchanged_ns = gs_http_page_unchanged_ns(expected, gs_clock_wall());
        if (unchanged_ns < WRITE_NS)
            return -ENOBUFS;
        must_copy |= unchanged_ns <= GS_HTTP_SETTLED_NS;
    }
    return must_copy ? SERVE_FILE_COPY : 0;
}

/* -EINVAL may be due to the file's own file system. */
bool serve_note_sendfile(ssize_t n)
{
    if (n == -ENOSYS || n == -EPERM || n == -EOPNOTSUPP)
        atomic_store_explicit(&is_refused, true, memory_order_relaxed);
    else if (n != -EINVAL)
        return false;
    return true;
}

static size_t copy_size(const struct serve_output *output)
{
    size_t size = 0;
    for (unsigned i = 0; i < output->count && size < SERVE_FILE_COPY_SIZE; i++)
        size += output->parts[i].iov_len;
    return size < SERVE_FILE_COPY_SIZE ? size : SERVE_FILE_COPY_SIZE;
}

/* Returns how many bytes were copied, up to where the file ends or fails; or, if that is where it
 * begins, 0 or -errno. */
static ssize_t copy_parts(const struct serve_output *output,
                          ssize_t (*read)(int fd, void *bytes, size_t n, off_t offset), char *bytes,
                          size_t size)
{
    off_t offset = output->offset;
    size_t at = 0;
    for (unsigned i = 0; i < output->count && at < size; i++) {
        const struct iovec *part = &output->parts[i];
        size_t n = part->iov_len < size - at ? part->iov_len : size - at;
        if (part->iov_base) {
            memcpy(bytes + at, part->iov_base, n);
            at += n;
            continue;
        }
        ssize_t result = read(output->fd, bytes + at, n, offset);
        if (result <= 0)
            return offset == output->offset ? result : (ssize_t)at;
        at += (size_t)result;
        offset += result;
        if (result < (ssize_t)n)
            break;
    }
    return (ssize_t)at;
}

ssize_t serve_file_copy(const struct serve_output *output,
                        ssize_t (*read)(int fd, void *bytes, size_t n, off_t offset),
                        char **ret_bytes)
{
    size_t size = copy_size(output);
    char *bytes = malloc(size);
    if (!bytes)
        return -ENOMEM;
    ssize_t n = copy_parts(output, read, bytes, size);
    int err = n > 0 ? serve_file_check(output) : 0;
    if (err < 0)
        n = err;
    if (n > 0)
        *ret_bytes = bytes;
    else
        free(bytes);
    return n;
}

ssize_t serve_file_send_read(const struct serve_output *output, int fd, const char *bytes, size_t n)
{
    struct serve_output memory = {.parts = {{(void *)bytes, n}},
                                  .count = 1,
                                  .tls = output->tls,
                                  .last_bytes = output->last_bytes};
    return serve_output_send(&memory, fd);
}

/* What the socket does not take is read again the next time. */
static ssize_t copy(const struct serve_output *output, int fd)
{
    char *bytes;
    ssize_t n = serve_file_copy(output, gs_sys_pread, &bytes);
    if (n <= 0)
        return n;
    n = serve_file_send_read(output, fd, bytes, (size_t)n);
    free(bytes);
    return n;
}

ssize_t serve_file_send(struct serve_output *output, int fd)
{
    int checked = serve_file_check(output);
    if (checked || output->tls)
        return checked < 0 ? checked : copy(output, fd);
    ssize_t n = gs_sys_sendfile(fd, output->fd, &output->offset, output->n);
    return serve_note_sendfile(n) ? copy(output, fd) : n;
}

bool serve_file_has_failed(ssize_t n)
{
    switch (n) {
    case -EAGAIN:
    case -ENOBUFS:
    case -ENOMEM:
    case -EPIPE:
    case -ECONNRESET:
    case -ECONNABORTED:
    case -ENOTCONN:
    case -ETIMEDOUT:
    case -EHOSTUNREACH:
    case -ENETUNREACH:
    case -ENETDOWN:
        return false;
    default:
        return n <= 0;
    }
}
