/* Calls on files. A call is tried at once if it can be made without waiting for a disk. Otherwise
 * io_uring runs it, or the pool if there is no io_uring. Both get the operation as an io_uring
 * entry on the stack of the waiting thread. */
#include "thread/files.h"

#include "thread/file_ring.h"
#include "thread/turn.h"

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
    struct stat *stat; /* result of the pool */
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
    do
        operation->result = execute(operation);
    while (operation->result == -EINTR);
}

static ssize_t run_operation(struct operation *operation, uint64_t deadline_ns)
{
    int64_t result;
    if (gs_file_ring_run(&operation->entry, deadline_ns, &result))
        return (ssize_t)result;
    int err = gs_run_blocking(run_in_pool, operation, deadline_ns);
    return err ? err : operation->result;
}

/* ---- Reading and writing ---- */

static ssize_t transfer(const struct file_transfer *transfer, uint64_t deadline_ns)
{
    bool is_read = transfer->is_read;
    struct operation operation = {.entry = {
                                      .opcode = is_read ? IORING_OP_READV : IORING_OP_WRITEV,
                                      .fd = transfer->fd,
                                      .addr = (uintptr_t)transfer->iov,
                                      .len = (uint32_t)transfer->count,
                                      .off = (uint64_t)transfer->offset,
                                  }};
    ssize_t n = is_read ? gs_sys_preadv2(transfer->fd, transfer->iov, transfer->count,
                                         transfer->offset, RWF_NOWAIT)
                        : gs_sys_pwritev2(transfer->fd, transfer->iov, transfer->count,
                                          transfer->offset, RWF_NOWAIT);
    /* Some kernels return 0 if they would have to wait. */
    if (n > 0 || (n && n != -EAGAIN && n != -EINTR && n != -EOPNOTSUPP)) {
        turn_spend(n, deadline_ns);
        return n;
    }
    return run_operation(&operation, deadline_ns);
}

ssize_t gs_pread(int fd, void *bytes, size_t n, off_t offset, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct iovec part = {.iov_base = bytes, .iov_len = n};
    if (offset < 0)
        return -EINVAL;
    return transfer(&(struct file_transfer){fd, true, &part, 1, offset}, deadline_ns);
}

ssize_t gs_pwrite(int fd, const void *bytes, size_t n, off_t offset, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    const struct iovec part = {.iov_base = (void *)bytes, .iov_len = n};
    if (offset < 0)
        return -EINVAL;
    return transfer(&(struct file_transfer){fd, false, &part, 1, offset}, deadline_ns);
}

/* io_uring does not lock the file offset, and the system calls of the pool would let a worker wait
 * for that lock. So threads take turns: those of the same file, which may be open under several
 * numbers, and those of files with the same hash. */
static struct gs_mutex positions[256];

ssize_t gs_file_transfer(const struct file_transfer *request, unsigned file_hash,
                         uint64_t deadline_ns)
{
    struct gs_mutex *position = &positions[file_hash % (sizeof positions / sizeof *positions)];
    ssize_t n = gs_mutex_lock(position, deadline_ns);
    if (n)
        return n;
    n = transfer(request, deadline_ns);
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
    struct operation operation = {.entry = {
                                      .opcode = IORING_OP_OPENAT2,
                                      .flags = IOSQE_ASYNC,
                                      .fd = dirfd,
                                      .addr = (uintptr_t)path,
                                      .addr2 = (uintptr_t)how,
                                      .len = sizeof *how,
                                  }};
    return (int)run_operation(&operation, deadline_ns);
}

int gs_fsync(int fd, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    struct operation operation = {.entry = {.opcode = IORING_OP_FSYNC, .fd = fd}};
    return (int)run_operation(&operation, deadline_ns);
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
    struct operation operation = {.entry =
                                      {
                                          .opcode = IORING_OP_STATX,
                                          .fd = dirfd,
                                          .addr = (uintptr_t)path,
                                          .addr2 = (uintptr_t)&statx,
                                          .len = STATX_BASIC_STATS,
                                          .statx_flags = AT_NO_AUTOMOUNT,
                                      },
                                  .stat = ret_stat};
    int err = (int)run_operation(&operation, deadline_ns);
    /* Filled in by io_uring, not by the pool. */
    if (!err && statx.stx_mask)
        convert(&statx, ret_stat);
    return err;
}
