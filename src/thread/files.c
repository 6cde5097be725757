/* Calls that block whatever is done: each is run by the pool, with its arguments on the stack of the thread that waits. */
#include "thread/state.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <linux/openat2.h>
#include <netdb.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

struct arguments {
    int fd, flags;
    const char *path;
    void *bytes;
    size_t n;
    off_t offset;
    const struct open_how *how;
    ssize_t result;
};

static void run_open(void *argument)
{
    struct arguments *call = argument;
    call->result = gs_sys_openat2(call->fd, call->path, call->how);
}

static void run_pread(void *argument)
{
    struct arguments *call = argument;
    call->result = gs_sys_pread(call->fd, call->bytes, call->n, call->offset);
}

static void run_pwrite(void *argument)
{
    struct arguments *call = argument;
    const struct iovec part = {.iov_base = call->bytes, .iov_len = call->n};
    call->result = gs_sys_pwritev2(call->fd, &part, 1, call->offset, 0);
}

static void run_fsync(void *argument)
{
    struct arguments *call = argument;
    call->result = gs_sys_fsync(call->fd);
}

static void run_stat(void *argument)
{
    struct arguments *call = argument;
    call->result = gs_sys_fstatat(call->fd, call->path, call->bytes, call->flags);
}

static ssize_t run(void (*fn)(void *), struct arguments *call, uint64_t deadline_ns)
{
    int err = gs_run_blocking(fn, call, deadline_ns);
    return err ? err : call->result;
}

int gs_open(int dirfd, const char *path, const struct open_how *how, uint64_t deadline_ns)
{
    struct arguments call = {.fd = dirfd, .path = path, .how = how};
    return (int)run(run_open, &call, deadline_ns);
}

/* What is in the page cache is read at once. */
ssize_t gs_pread(int fd, void *bytes, size_t n, off_t offset, uint64_t deadline_ns)
{
    struct arguments call = {.fd = fd, .bytes = bytes, .n = n, .offset = offset};
    const struct iovec part = {.iov_base = bytes, .iov_len = n};
    ssize_t done = gs_sys_preadv2(fd, &part, 1, offset, RWF_NOWAIT);
    if (done > 0 || (done < 0 && done != -EAGAIN && done != -EOPNOTSUPP))
        return done;
    return run(run_pread, &call, deadline_ns);
}

ssize_t gs_pwrite(int fd, const void *bytes, size_t n, off_t offset, uint64_t deadline_ns)
{
    struct arguments call = {.fd = fd, .bytes = (void *)bytes, .n = n, .offset = offset};
    return run(run_pwrite, &call, deadline_ns);
}

int gs_fsync(int fd, uint64_t deadline_ns)
{
    struct arguments call = {.fd = fd};
    return (int)run(run_fsync, &call, deadline_ns);
}

int gs_stat(int dirfd, const char *path, struct stat *ret_stat, uint64_t deadline_ns)
{
    struct arguments call = {.fd = dirfd, .path = path, .bytes = ret_stat};
    return (int)run(run_stat, &call, deadline_ns);
}

/* ---- Names ---- */

struct resolution {
    const char *node, *service;
    const struct addrinfo *hints;
    struct addrinfo *addresses;
    int result;
};

static void run_resolve(void *argument)
{
    struct resolution *resolution = argument;
    resolution->result = getaddrinfo(resolution->node, resolution->service, resolution->hints,
                                     &resolution->addresses);
}

static int error_of(int result)
{
    switch (result) {
    case 0:
        return 0;
    case EAI_NONAME:
    case EAI_SERVICE:
    case EAI_NODATA:
        return -ENOENT;
    case EAI_AGAIN:
        return -EAGAIN;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_BADFLAGS:
    case EAI_FAMILY:
    case EAI_SOCKTYPE:
        return -EINVAL;
    default:
        return -EIO;
    }
}

int gs_resolve(const char *node, const char *service, const struct addrinfo *hints,
               uint64_t deadline_ns, struct addrinfo **ret_addresses)
{
    struct resolution resolution = {.node = node, .service = service, .hints = hints};
    int err = gs_run_blocking(run_resolve, &resolution, deadline_ns);
    if (!err)
        err = error_of(resolution.result);
    if (!err)
        *ret_addresses = resolution.addresses;
    return err;
}

/* ---- Children ---- */

int gs_wait_child(pid_t pid, uint64_t deadline_ns, int *ret_status)
{
    int fd = gs_sys_pidfd_open(pid, 0);
    if (fd < 0)
        return fd == -ESRCH ? -ECHILD : fd;
    int err, status;
    do {
        err = gs_sys_wait4(pid, &status, WNOHANG);
        if (!err)
            err = gs_wait_readable(fd, deadline_ns);
    } while (!err);
    gs_close(fd);
    if (err < 0)
        return err;
    *ret_status = status;
    return 0;
}

/* ---- Signals ---- */

struct signal_wait {
    struct gs_signal watcher;
    struct gs_thread *thread;
    bool has_come;
};

static void on_signal(struct gs_signal *signal)
{
    struct signal_wait *wait = gs_container_of(signal, struct signal_wait, watcher);
    wait->has_come = true;
    gs_signal_stop(signal);
    if (thread_claim(wait->thread, CLAIM_WOKEN))
        thread_ready(worker_current(), wait->thread);
}

/* The watcher is of this worker's loop, which steps only once the thread has left its stack; so a thread that waits here does not
 * migrate meanwhile. */
int gs_wait_signal(int number, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {"signal", true};
    struct gs_thread *self = thread_current();
    const struct wait wait = {&waiting, (const void *)(intptr_t)number, deadline_ns, false};
    struct signal_wait caught = {.thread = self};
    bool migrates = self->migrates;
    gs_signal_init(&caught.watcher, self->worker->loop, on_signal);
    int err = gs_signal_start(&caught.watcher, number);
    if (err)
        return err;
    self->migrates = false;
    err = gs_thread_wait(self, NULL, &wait);
    gs_signal_stop(&caught.watcher);
    self->migrates = migrates;
    return caught.has_come ? 0 : err;
}
