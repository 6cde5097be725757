/* Calls on files. A call is tried at once if it can be made without waiting for a disk. Otherwise
 * io_uring runs it, or the pool if there is no io_uring. Both get the operation as an io_uring
 * entry. */
#include "thread/io/files.h"

#include "thread/io/blocking.h"
#include "thread/io/descriptors.h"
#include "thread/io/file_ring.h"
#include "thread/schedule/off_stack.h"
#include "thread/schedule/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

struct operation {
    struct io_uring_sqe entry;
    const struct opened *file; /* whose number the entry has; NULL: none has to be looked up */
    struct stat *stat;         /* result of the pool */
    ssize_t result;
};

/* ---- The pool ---- */

static ssize_t execute(const struct operation *operation)
{
    const struct io_uring_sqe *entry = &operation->entry;
    void *at = (void *)(uintptr_t)entry->addr;
    switch (entry->opcode) {
    case IORING_OP_READV:
        return gs_sys_preadv2(entry->fd, at, (int)entry->len, (off_t)entry->off, 0);
    case IORING_OP_WRITEV:
        return gs_sys_pwritev2(entry->fd, at, (int)entry->len, (off_t)entry->off, 0);
    case IORING_OP_FSYNC:
        return gs_sys_fsync(entry->fd);
    case IORING_OP_OPENAT2:
        return gs_sys_openat2(entry->fd, at, (const struct open_how *)(uintptr_t)entry->addr2);
    case IORING_OP_STATX:
        return gs_sys_fstatat(entry->fd, at, operation->stat, 0);
    default:
        return -EINVAL;
    }
}

static void run_in_pool(void *argument)
{
    struct operation *operation = argument;
    const struct opened *file = operation->file;
    if (file && !gs_opened_enter(file)) {
        operation->result = -EBADF;
        return;
    }
    do
        operation->result = execute(operation);
    while (operation->result == -EINTR);
    if (file)
        gs_opened_leave(file);
}

static enum job_kind kind_of(const struct operation *operation)
{
    unsigned opcode = operation->entry.opcode;
    return opcode == IORING_OP_OPENAT2 || opcode == IORING_OP_STATX ? JOB_PATH : JOB_FILE;
}

/* Once gs_close has closed the number, a call fails with an error that depends on the call. */
static ssize_t run_off_stack(struct operation *operation, uint64_t deadline_ns)
{
    const struct opened *file = operation->file;
    int64_t result;
    if (file && !file->descriptor)
        return descriptor_error(file->fd);
    if (!gs_file_ring_run(&operation->entry, file, deadline_ns, &result)) {
        int err = gs_run_blocking_as(kind_of(operation), run_in_pool, operation, sizeof *operation,
                                     deadline_ns);
        if (err)
            return err;
        result = operation->result;
    }
    return result < 0 && file && opened_is_closed(file) ? -EBADF : (ssize_t)result;
}

/* off: has copied what the entry points to; ends here. */
static ssize_t run_operation(struct operation *operation, struct off_stack *off,
                             uint64_t deadline_ns)
{
    operation->file = off_stack_in(off, operation->file, sizeof *operation->file);
    ssize_t result = off->err ? off->err : run_off_stack(operation, deadline_ns);
    off_stack_end(off);
    return result;
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

/* Not inline: the entry is made only if it is needed. */
static __attribute__((noinline)) ssize_t run_transfer(const struct io_call *call,
                                                      uint64_t deadline_ns)
{
    bool is_read = call->direction == GS_READ;
    struct off_stack off = {.thread = thread_current()};
    const struct iovec *parts = off_stack_parts(&off, call->bytes, call->count, is_read);
    struct operation operation = {
        .entry =
            {
                .opcode = is_read ? IORING_OP_READV : IORING_OP_WRITEV,
                .fd = call->file.fd,
                .addr = (uintptr_t)parts,
                .len = (uint32_t)call->count,
                .off = (uint64_t)call->offset,
            },
        .file = &call->file,
    };
    return run_operation(&operation, &off, deadline_ns);
}

static ssize_t transfer(const struct io_call *call, uint64_t deadline_ns)
{
    ssize_t n = try_transfer(call);
    /* Some kernels return 0 if they would have to wait. */
    if (n > 0 || (n && n != -EAGAIN && n != -EINTR && n != -EOPNOTSUPP)) {
        turn_spend(n, deadline_ns);
        return n;
    }
    return run_transfer(call, deadline_ns);
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

/* io_uring does not lock the file offset, and the system calls of the pool would let a worker wait
 * for that lock. So threads take turns: those of the same file, which may be open under several
 * numbers, and those of files with the same hash. */
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

/* IOSQE_ASYNC: tried without waiting first, a FIFO would be opened although its other end is
 * not. */
int gs_open(int dirfd, const char *path, const struct open_how *how, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct opened directory = opened(dirfd);
    struct off_stack off = {.thread = thread_current()};
    struct operation operation = {.entry =
                                      {
                                          .opcode = IORING_OP_OPENAT2,
                                          .flags = IOSQE_ASYNC,
                                          .fd = dirfd,
                                          .addr = (uintptr_t)off_stack_string(&off, path),
                                          .addr2 = (uintptr_t)off_stack_in(&off, how, sizeof *how),
                                          .len = sizeof *how,
                                      },
                                  .file = dirfd < 0 ? NULL : &directory};
    return (int)run_operation(&operation, &off, deadline_ns);
}

int gs_fsync(int fd, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct opened file = opened(fd);
    struct off_stack off = {.thread = thread_current()};
    struct operation operation = {.entry = {.opcode = IORING_OP_FSYNC, .fd = fd}, .file = &file};
    return (int)run_operation(&operation, &off, deadline_ns);
}

static struct timespec time_of(const struct statx_timestamp *time)
{
    return (struct timespec){.tv_sec = time->tv_sec, .tv_nsec = time->tv_nsec};
}

static void convert(const struct statx *from, struct stat *to)
{
    *to = (struct stat){
        .st_dev = makedev(from->stx_dev_major, from->stx_dev_minor),
        .st_ino = from->stx_ino,
        .st_mode = from->stx_mode,
        .st_nlink = from->stx_nlink,
        .st_uid = from->stx_uid,
        .st_gid = from->stx_gid,
        .st_rdev = makedev(from->stx_rdev_major, from->stx_rdev_minor),
        .st_size = (off_t)from->stx_size,
        .st_blksize = (blksize_t)from->stx_blksize,
        .st_blocks = (blkcnt_t)from->stx_blocks,
        .st_atim = time_of(&from->stx_atime),
        .st_mtim = time_of(&from->stx_mtime),
        .st_ctim = time_of(&from->stx_ctime),
    };
}

int gs_stat(int dirfd, const char *path, struct stat *ret_stat, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct statx statx = {.stx_mask = 0};
    const struct opened directory = opened(dirfd);
    struct off_stack off = {.thread = thread_current()};
    struct operation operation = {
        .entry =
            {
                .opcode = IORING_OP_STATX,
                .fd = dirfd,
                .addr = (uintptr_t)off_stack_string(&off, path),
                .addr2 = (uintptr_t)off_stack_out(&off, &statx, sizeof statx),
                .len = STATX_BASIC_STATS,
                .statx_flags = AT_NO_AUTOMOUNT,
            },
        .file = dirfd < 0 ? NULL : &directory,
        .stat = off_stack_out(&off, ret_stat, sizeof *ret_stat)};
    int err = (int)run_operation(&operation, &off, deadline_ns);
    /* Filled in by io_uring, not by the pool. */
    if (!err && statx.stx_mask)
        convert(&statx, ret_stat);
    return err;
}
