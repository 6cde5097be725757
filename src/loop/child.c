/* Child processes. Each has a pidfd, which becomes readable when the process ends. Where the kernel
 * provides no pidfd, the child is checked after each SIGCHLD. */
#include "loop/state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <signal.h>
#include <sys/wait.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static struct gs_child *child_of(struct gs_list *link)
{
    return gs_container_of(link, struct gs_child, link);
}

void gs_loop_init_children(struct gs_loop *loop)
{
    gs_list_init(&loop->children.all);
    gs_signal_init(&loop->children.on_signal, loop, NULL);
    loop->children.on_signal.watcher.is_internal = true;
    loop->children.on_signal.watcher.unreferenced = true;
}

/* Returns 0 or -errno; ret_info->si_pid stays 0 while the process runs. */
static int query_status(const struct gs_child *child, siginfo_t *ret_info, int options,
                        struct rusage *ret_usage)
{
    options |= WEXITED | WNOHANG | __WALL;
    return child->io.fd < 0 ? gs_sys_waitid(P_PID, child->pid, ret_info, options, ret_usage)
                            : gs_sys_waitid(P_PIDFD, child->io.fd, ret_info, options, ret_usage);
}

/* Whether another watcher of the loop waits for the same process, and must still get its status. */
static bool has_other_watchers(const struct gs_child *child)
{
    const struct gs_list *all = &child->watcher.loop->children.all;
    GS_LIST_FOREACH (link, all) {
        const struct gs_child *other = child_of(link);
        if (other != child && other->pid == child->pid)
            return true;
    }
    return false;
}

/* Its pidfd is being watched, or it has none. */
static void add(struct gs_child *child)
{
    struct gs_loop *loop = child->watcher.loop;
    gs_list_append(&loop->children.all, &child->link);
    loop->special_count++;
}

/* Returns 0 or -EINVAL: SIGCHLD cannot be caught. */
static int start_with_sigchld(struct gs_child *child)
{
    struct children *children = &child->watcher.loop->children;
    child->io.fd = -1;
    int err = gs_signal_start(&children->on_signal, SIGCHLD);
    if (err)
        return err;
    children->sigchld_count++;
    gs_loop_activate(&child->watcher);
    add(child);
    gs_loop_set_pending(&child->watcher, 0);
    return 0;
}

static void close_pidfd(struct gs_child *child)
{
    gs_loop_fd_closed(child->watcher.loop, child->io.fd);
    gs_sys_close(child->io.fd);
}

void gs_child_stop(struct gs_child *child)
{
    CHECKED_STOP(&child->watcher);
    struct children *children = &child->watcher.loop->children;
    if (!child->watcher.active)
        return;
    gs_list_remove(&child->link);
    child->watcher.loop->special_count--;
    if (child->io.fd >= 0) {
        gs_io_stop(&child->io);
        close_pidfd(child);
        return;
    }
    gs_loop_deactivate(&child->watcher);
    if (!--children->sigchld_count)
        gs_signal_stop(&children->on_signal);
}

/* The kernel refuses to watch the pidfd, so the descriptor watcher has been stopped. */
static void fall_back_to_sigchld(struct gs_child *child)
{
    gs_list_remove(&child->link);
    child->watcher.loop->special_count--;
    close_pidfd(child);
    int err = start_with_sigchld(child);
    if (!err)
        return;
    struct gs_child_exit exit = {.pid = child->pid, .status = err};
    child->callback(child, &exit);
}

static void on_ready(struct gs_io *io, unsigned events)
{
    struct gs_child *child = gs_container_of(io, struct gs_child, io);
    struct gs_child_exit exit = {.pid = child->pid};
    siginfo_t info = {0};
    if (events & GS_FAILED) {
        fall_back_to_sigchld(child);
        return;
    }
    int err = query_status(child, &info, has_other_watchers(child) ? WNOWAIT : 0, &exit.usage);
    bool has_ended = err || info.si_pid;
    if (!has_ended && !(events & FED)) {
        child->watcher.loop->counts.callbacks--;
        return;
    }
    exit.code = info.si_code;
    exit.status = err ? err : info.si_status;
    if (has_ended)
        gs_child_stop(child);
    child->callback(child, &exit);
}

void gs_child_init(struct gs_child *child, struct gs_loop *loop, gs_child_fn *callback)
{
    CHECKED_INIT(&child->watcher);
    *child = (struct gs_child){.callback = callback};
    gs_io_init(&child->io, loop, on_ready);
    child->watcher.kind = KIND_CHILD;
}

/* Closes fd on failure. Returns -EINVAL if the kernel has pidfds but cannot wait with them
 * (P_PIDFD). */
static int start_with_pidfd(struct gs_child *child, int fd)
{
    siginfo_t info;
    gs_io_set(&child->io, fd, GS_READ);
    int err = query_status(child, &info, WNOWAIT, NULL);
    if (!err)
        err = gs_io_start(&child->io);
    if (err)
        gs_sys_close(fd);
    else
        add(child);
    return err;
}

int gs_child_start(struct gs_child *child, pid_t pid)
{
    CHECKED_START(&child->watcher, KIND_CHILD);
    siginfo_t info;
    if (child->watcher.active)
        return 0;
    if (pid <= 0)
        return -EINVAL;
    child->pid = pid;
    int fd = gs_sys_pidfd_open(pid, 0);
    if (fd == -ESRCH || fd == -ENOENT)
        return -ECHILD;
    int err = fd < 0 ? fd : start_with_pidfd(child, fd);
    if (err != -ENOSYS && err != -EPERM && err != -EINVAL)
        return err;
    child->io.fd = -1;
    err = query_status(child, &info, WNOWAIT, NULL);
    return err ? err : start_with_sigchld(child);
}

void gs_loop_stop_children(struct gs_loop *loop)
{
    GS_LIST_FOREACH (link, &loop->children.all)
        gs_child_stop(child_of(link));
}

void gs_loop_collect_children(struct gs_loop *loop)
{
    if (LIKELY(!gs_loop_consume_internal(&loop->children.on_signal.watcher)))
        return;
    GS_LIST_FOREACH (link, &loop->children.all)
        if (child_of(link)->io.fd < 0)
            gs_loop_set_pending(&child_of(link)->watcher, 0);
}
