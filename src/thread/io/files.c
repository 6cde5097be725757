/* Calls on files. A read or a write is tried at once, and succeeds if it need not wait for a disk.
 * All else is done by the pool. */
#include "thread/io/files.h"

#include "thread/io/blocking_mode.h"
#include "thread/schedule/off_stack.h"
#include "thread/schedule/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The pool makes the call. Once gs_close has closed the number, a call fails with an error that
 * depends on the call. off: has copied what the call points to; ends here. */
static ssize_t run(enum job_kind kind, const struct io_call *call, struct off_stack *off,
                   uint64_t deadline_ns)
{
    const struct opened *file = &call->file;
    ssize_t n = off->err ? off->err : gs_run_in_pool(kind, call, deadline_ns);
    off_stack_end(off);
    return n < 0 && file->descriptor && opened_is_closed(file) ? -EBADF : n;
}

/* ---- Reading and writing ---- */

static ssize_t try_transfer(const struct io_call *call)
{
    if (!opened_enter(&call->file))
        return -EBADF;
    ssize_t n = gs_try_parts(call);
    opened_leave(&call->file);
    return n;
}

static ssize_t transfer_from_disk(const struct io_call *call)
{
    int fd = call->file.fd;
    return call->direction == GS_READ
               ? gs_sys_preadv2(fd, call->bytes, call->count, call->offset, 0)
               : gs_sys_pwritev2(fd, call->bytes, call->count, call->offset, 0);
}

static ssize_t transfer_in_pool(const struct io_call *request, uint64_t deadline_ns)
{
    struct off_stack off = {.thread = thread_current()};
    struct io_call call = *request;
    call.try = transfer_from_disk;
    call.bytes = (void *)off_stack_parts(&off, call.bytes, call.count, call.direction == GS_READ);
    return run(JOB_FILE, &call, &off, deadline_ns);
}

static ssize_t transfer_some(const struct io_call *request, uint64_t deadline_ns)
{
    ssize_t n = try_transfer(request);
    /* Some kernels return 0 if they would have to wait. */
    if (n > 0 || (n && n != -EAGAIN && n != -EINTR && n != -EOPNOTSUPP)) {
        turn_spend(n, deadline_ns);
        return n;
    }
    return transfer_in_pool(request, deadline_ns);
}

/* Whether the file ends behind what has been read. */
static bool is_at_end(const struct io_call *call, size_t done)
{
    struct stat stat;
    off_t at = call->offset + (off_t)done;
    if (!opened_enter(&call->file))
        return true;
    int err = gs_sys_fstat(call->file.fd, &stat);
    if (call->offset < 0)
        at = lseek(call->file.fd, 0, SEEK_CUR);
    opened_leave(&call->file);
    return err || at < 0 || !S_ISREG(stat.st_mode) || at >= stat.st_size;
}

/* What is left of the part in which the transfer has stopped; empty: nothing is left. */
static struct iovec rest_of(const struct io_call *call, size_t done)
{
    const struct iovec *parts = call->bytes;
    int i = 0;
    for (; i < call->count && done >= parts[i].iov_len; i++)
        done -= parts[i].iov_len;
    return i == call->count
               ? (struct iovec){NULL, 0}
               : (struct iovec){(char *)parts[i].iov_base + done, parts[i].iov_len - done};
}

/* A try stops where the page cache does, which is no reason to transfer less than the system call
 * does. Returns what has been transferred, or the error of the first transfer. */
static ssize_t transfer(const struct io_call *request, uint64_t deadline_ns)
{
    ssize_t some, n = transfer_some(request, deadline_ns);
    for (; n > 0; n += some) {
        struct iovec rest = rest_of(request, (size_t)n);
        if (!rest.iov_len || (request->direction == GS_READ && is_at_end(request, (size_t)n)))
            return n;
        struct io_call call = *request;
        call.file.has_waited = true;
        call.bytes = &rest;
        call.count = 1;
        call.offset += request->offset < 0 ? 0 : n;
        some = transfer_in_pool(&call, deadline_ns);
        if (some <= 0)
            return n;
    }
    return n;
}

static ssize_t transfer_at(int fd, unsigned direction, const struct iovec *part, off_t offset,
                           uint64_t deadline_ns)
{
    const struct io_call call = {.file = opened(fd),
                                 .direction = direction,
                                 .bytes = (void *)part,
                                 .count = 1,
                                 .offset = offset};
    if (offset < 0)
        return -EINVAL;
    return call.file.descriptor ? transfer(&call, deadline_ns) : descriptor_error(fd);
}

ssize_t gs_pread(int fd, void *bytes, size_t n, off_t offset, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct iovec part = {.iov_base = bytes, .iov_len = n};
    return transfer_at(fd, GS_READ, &part, offset, deadline_ns);
}

ssize_t gs_pwrite(int fd, const void *bytes, size_t n, off_t offset, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct iovec part = {.iov_base = (void *)bytes, .iov_len = n};
    return transfer_at(fd, GS_WRITE, &part, offset, deadline_ns);
}

/* A kernel thread of the pool that reads at the file offset holds the kernel's lock of that, for
 * which a worker's try would wait. So threads take turns: those of the same file, which may be open
 * under several numbers, and those of files with the same hash. */
static struct gs_mutex positions[256];

struct gs_mutex *gs_file_position(const struct opened *file)
{
    return &positions[atomic_load_explicit(&file->descriptor->file_hash, memory_order_relaxed)];
}

ssize_t gs_file_transfer(const struct io_call *request, uint64_t deadline_ns)
{
    struct gs_mutex *position = gs_file_position(&request->file);
    struct io_call call = *request;
    ssize_t n = gs_mutex_lock(position, 0);
    if (n) {
        call.file.has_waited = true;
        n = gs_mutex_lock(position, deadline_ns);
    }
    if (n)
        return n;
    n = transfer(&call, deadline_ns);
    gs_mutex_unlock(position);
    return n;
}

void gs_files_reset(void)
{
    memset(positions, 0, sizeof positions);
}

/* ---- Other calls ---- */

static ssize_t sync_file(const struct io_call *call)
{
    return gs_sys_fsync(call->file.fd);
}

int gs_fsync(int fd, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct io_call call = {.try = sync_file, .file = opened(fd)};
    struct off_stack off = {.thread = thread_current()};
    if (!call.file.descriptor)
        return descriptor_error(fd);
    return (int)run(JOB_FILE, &call, &off, deadline_ns);
}

static ssize_t get_status(const struct io_call *call)
{
    return gs_sys_fstatat(call->file.fd, call->bytes, call->stat, 0);
}

int gs_stat(int dirfd, const char *path, struct stat *ret_stat, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct off_stack off = {.thread = thread_current()};
    const struct io_call call = {.try = get_status,
                                 .file = opened(dirfd),
                                 .bytes = (void *)off_stack_string(&off, path),
                                 .stat = off_stack_out(&off, ret_stat, sizeof *ret_stat)};
    return (int)run(JOB_PATH, &call, &off, deadline_ns);
}

/* The first and the longest time after which an open is interrupted, to see whether the deadline
 * has passed or the thread was canceled: a FIFO is opened when its other end is. File systems that
 * a process implements may need some time, and would begin again. */
#define OPEN_PATIENCE (10 * GS_MILLISECOND)
#define OPEN_PATIENCE_MAX GS_SECOND

static ssize_t open_path(const struct io_call *call)
{
    return gs_sys_openat2(call->file.fd, call->bytes, call->how);
}

static int open_in_pool(const struct io_call *call, uint64_t deadline_ns)
{
    uint64_t patience_ns = OPEN_PATIENCE;
    int fd = deadline_ns ? -EINTR : -ETIMEDOUT;
    while (fd == -EINTR) {
        if (gs_clock_now() >= deadline_ns)
            return -ETIMEDOUT;
        fd = (int)gs_run_interrupted(JOB_PATH, call, patience_ns, deadline_ns);
        patience_ns = earlier(2 * patience_ns, OPEN_PATIENCE_MAX);
    }
    /* Without a timer it was not made, and cannot be interrupted. */
    return fd == -ENOMEM ? (int)gs_run_in_pool(JOB_PATH, call, deadline_ns) : fd;
}

int gs_open(int dirfd, const char *path, const struct open_how *how, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct off_stack off = {.thread = thread_current()};
    const struct io_call call = {.try = open_path,
                                 .file = opened(dirfd),
                                 .bytes = (void *)off_stack_string(&off, path),
                                 .how = off_stack_in(&off, how, sizeof *how)};
    int fd = off.err ? off.err : open_in_pool(&call, deadline_ns);
    off_stack_end(&off);
    return fd < 0 && call.file.descriptor && opened_is_closed(&call.file) ? -EBADF : fd;
}
