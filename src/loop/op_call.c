/* Operations without a descriptor: opening a file, and name resolution. A kernel thread of the pool
 * makes the call, unless io_uring opens the file. The call is internal work, in memory of its own,
 * so that a look-up can be abandoned: then neither the loop nor the operation knows it. */
#include "base/resolution.h"
#include "loop/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <stdlib.h>

struct op_call {
    struct gs_work work;
    struct gs_op *op;              /* NULL: nobody waits for the result */
    struct resolution *resolution; /* NULL: a file is opened */
    struct addrinfo **ret_addresses;
    struct open_how how;
    const char *path;
    int dirfd, fd;
};

static struct op_call *call_of(struct gs_work *work)
{
    return gs_container_of(work, struct op_call, work);
}

/* ---- In a kernel thread of the pool ---- */

static void run_open(struct gs_work *work)
{
    struct op_call *call = call_of(work);
    do
        call->fd = gs_sys_openat2(call->dirfd, call->path, &call->how);
    while (call->fd == -EINTR);
}

static void run_resolve(struct gs_work *work)
{
    gs_resolution_run(call_of(work)->resolution);
}

/* Also called by the loop. */
static void free_call(struct gs_work *work)
{
    struct op_call *call = call_of(work);
    if (call->resolution)
        gs_resolution_free(call->resolution);
    free(call);
}

/* ---- In the loop's thread ---- */

static int64_t take_result(struct op_call *call)
{
    return call->resolution ? gs_resolution_take(call->resolution, call->ret_addresses) : call->fd;
}

static void on_called(struct gs_work *work, int err)
{
    struct op_call *call = call_of(work);
    struct gs_op *op = call->op;
    if (!op && !err && !call->resolution && call->fd >= 0)
        gs_sys_close(call->fd);
    int64_t result = !op || err ? err : take_result(call);
    free_call(work);
    if (!op)
        return;
    op->call = NULL;
    gs_loop_op_reset(op);
    op->callback(op, result);
}

bool gs_loop_op_drop_call(struct gs_op *op)
{
    struct op_call *call = op->call;
    enum job_state state = gs_loop_abandon_work(&call->work);
    if (state == JOB_QUEUED)
        free_call(&call->work);
    if (state == JOB_QUEUED || state == JOB_ABANDONED)
        op->call = NULL;
    return !op->call;
}

void gs_loop_op_leave_call(struct gs_op *op)
{
    struct op_call *call = op->call;
    if (gs_loop_op_drop_call(op))
        return;
    call->op = NULL;
    op->call = NULL;
}

static struct op_call *new_call(struct gs_op *op)
{
    struct op_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    gs_work_init(&call->work, op->io.watcher.loop, on_called);
    call->work.watcher.is_internal = call->work.watcher.unreferenced = true;
    call->work.watcher.priority = op->io.watcher.priority;
    call->op = op;
    return call;
}

static int begin(struct gs_op *op, enum gs_op_kind kind)
{
    if (op->kind)
        return -EBUSY;
    op->kind = (uint8_t)kind;
    op->io.fd = -1;
    gs_loop_activate(&op->io.watcher);
    return 0;
}

static int wait_for_result(struct gs_op *op, int err)
{
    if (err) {
        op->call = NULL;
        gs_loop_op_reset(op);
        return err;
    }
    op->is_submitted = true;
    gs_list_append(&op->io.watcher.loop->active_ops, &op->io.watcher.pending);
    return 0;
}

static int open_in_pool(struct gs_op *op, const struct open_how *how)
{
    struct op_call *call = op->call = new_call(op);
    if (!call)
        return -ENOMEM;
    call->dirfd = op->flags;
    call->path = op->bytes;
    call->how = *how;
    int err = gs_loop_start_work(&call->work, JOB_PATH, run_open, NULL);
    if (err)
        free_call(&call->work);
    return err;
}

int gs_op_open(struct gs_op *op, int dirfd, const char *path, const struct open_how *how)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    struct gs_loop *loop = op->io.watcher.loop;
    int err = begin(op, GS_OP_OPEN);
    if (err)
        return err;
    op->flags = dirfd;
    op->bytes = (void *)path;
    op->n = sizeof *how;
    op->offset = (uintptr_t)how;
    err = loop->poller->start_op ? loop->poller->start_op(loop, op) : open_in_pool(op, how);
    return wait_for_result(op, err);
}

static int resolve(struct gs_op *op, struct resolution *resolution, struct addrinfo **ret_addresses)
{
    if (!resolution)
        return -ENOMEM;
    struct op_call *call = op->call = new_call(op);
    if (!call) {
        gs_resolution_free(resolution);
        return -ENOMEM;
    }
    call->resolution = resolution;
    call->ret_addresses = ret_addresses;
    enum job_kind kind = gs_resolution_kind(resolution);
    int err = gs_loop_start_work(&call->work, kind, run_resolve, free_call);
    if (err)
        free_call(&call->work);
    return err;
}

int gs_op_resolve(struct gs_op *op, const char *node, const char *service,
                  const struct addrinfo *hints, struct addrinfo **ret_addresses)
{
    CHECKED_START(&op->io.watcher, KIND_OP);
    int err = begin(op, GS_OP_RESOLVE);
    if (err)
        return err;
    err = resolve(op, gs_resolution_new(node, service, hints), ret_addresses);
    return wait_for_result(op, err);
}

void gs_loop_op_end_call(struct gs_work *work)
{
    struct gs_op *op = call_of(work)->op;
    if (op)
        gs_loop_op_reset(op);
}
