/* sendfile takes the pages of the file as they are when it is called: so the file is checked at
 * once before, each time. */
#include "serve/file_send.h"

#include "http/page.h"

#include <gossamer/sys.h>
#include <stdlib.h>

/* A filter of system calls, or a kernel without sendfile, does not change its mind. */
static atomic_bool is_refused;

int serve_file_check(const struct serve_output *output)
{
    struct stat stat;
    int err = gs_sys_fstat(output->fd, &stat);
    if (err)
        return err;
    return gs_http_page_has_same_content(&output->page->stat, &stat) ? 0 : SERVE_FILE_CHANGED;
}

bool serve_sendfile_is_refused(void)
{
    return atomic_load_explicit(&is_refused, memory_order_relaxed);
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

/* What the socket does not take is read again the next time. */
static ssize_t copy(struct serve_output *output, int fd)
{
    size_t size = output->n < SERVE_FILE_COPY_SIZE ? output->n : SERVE_FILE_COPY_SIZE;
    char *bytes = malloc(size);
    if (!bytes)
        return -ENOMEM;
    ssize_t n = gs_sys_pread(output->fd, bytes, size, output->offset);
    if (n > 0)
        n = gs_sys_send(fd, bytes, (size_t)n, 0);
    output->offset += n > 0 ? n : 0;
    free(bytes);
    return n;
}

ssize_t serve_file_send(struct serve_output *output, int fd)
{
    int err = serve_file_check(output);
    if (err)
        return err;
    if (serve_sendfile_is_refused())
        return copy(output, fd);
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
