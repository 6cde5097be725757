/* What comes from outside and has no descriptor of its own: names, ends of children, signals. */
#include "thread/state.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <netdb.h>
#include <sys/wait.h>

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
