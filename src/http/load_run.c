#include "http/load.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>

static int64_t carry_out(const struct gs_http_file_op *op)
{
    switch (op->kind) {
    case GS_HTTP_FILE_OPEN: {
        struct open_how how = {.flags = op->flags, .resolve = op->resolve};
        return gs_sys_openat2(op->fd, op->path, &how);
    }
    case GS_HTTP_FILE_STAT:
        return gs_sys_fstat(op->fd, op->stat);
    case GS_HTTP_FILE_READ:
        return gs_sys_pread(op->fd, op->bytes, op->n, (off_t)op->offset);
    case GS_HTTP_FILE_CLOSE:
        return gs_sys_close(op->fd);
    case GS_HTTP_FILE_MAKE:
        return op->maker->make(op->bytes, op->n, op->maker->data);
    }
    return -EINVAL;
}

void gs_http_load_run(struct gs_http_load *load)
{
    struct gs_http_file_op op;
    while (gs_http_load_next(load, &op))
        gs_http_load_result(load, carry_out(&op));
}
