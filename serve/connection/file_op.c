#include "serve/connection/file_op.h"

#include <errno.h>
#include <gossamer/page_cache.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <sys/uio.h>

/* -EINVAL: the kernel is older than Linux 5.12. */
static bool try_open(const struct gs_http_file_op *op, int64_t *ret_fd)
{
    struct open_how how = {.flags = op->flags, .resolve = op->resolve | RESOLVE_CACHED};
    *ret_fd = gs_sys_openat2(op->fd, op->path, &how);
    return *ret_fd != -EAGAIN && *ret_fd != -EINVAL;
}

static bool is_in_memory(const struct gs_http_file_op *op)
{
    struct gs_page_cache nothing = {0};
    return gs_page_cache_has(&nothing, op->fd, (off_t)op->offset, op->n, 0);
}

/* Some kernels return 0 if they would have to wait. tmpfs does not support the flag. */
static bool try_read(const struct gs_http_file_op *op, int64_t *ret_n)
{
    const struct iovec part = {.iov_base = op->bytes, .iov_len = op->n};
    *ret_n = gs_sys_preadv2(op->fd, &part, 1, (off_t)op->offset, RWF_NOWAIT);
    if (*ret_n == -EOPNOTSUPP && is_in_memory(op))
        *ret_n = gs_sys_pread(op->fd, op->bytes, op->n, (off_t)op->offset);
    return *ret_n > 0;
}

bool serve_file_op_try(const struct gs_http_file_op *op, int64_t *ret_result)
{
    switch (op->kind) {
    case GS_HTTP_FILE_OPEN:
        return try_open(op, ret_result);
    case GS_HTTP_FILE_STAT:
        *ret_result = gs_sys_fstat(op->fd, op->stat);
        return true;
    case GS_HTTP_FILE_READ:
        return try_read(op, ret_result);
    case GS_HTTP_FILE_CLOSE:
        *ret_result = gs_sys_close(op->fd);
        return true;
    case GS_HTTP_FILE_GENERATE:
        *ret_result = op->generator->generate(op->bytes, op->n, op->generator->data);
        return true;
    case GS_HTTP_FILE_WORK:
        return false;
    }
    *ret_result = -EINVAL;
    return true;
}
