/* Closing a descriptor. A call that has waited looks its number up again, in a worker, in a kernel
 * thread of the pool; by then the number must not be another file's. So it
 * is counted meanwhile, and gs_close replaces the file instead of releasing the number: by one with
 * which all calls fail. The last of them releases it (docs/design/schedules.md). */
#include "thread/io/descriptors.h"
#include "thread/schedule/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/io.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>

/* ---- A file with which all calls fail ---- */

/* -1: none yet. */
static atomic_int dead_file = -1;
static atomic_bool is_epoll_set; /* and cannot be told from other files */

/* Reading, writing, waiting and all else fail with EBADF; as a directory it fails, too. Where there
 * is no /dev, any call fails on a set of epoll, with another error. */
static int open_dead_file(void)
{
    int fd = gs_sys_openat(AT_FDCWD, "/dev/null", O_PATH | O_CLOEXEC, 0);
    atomic_store(&is_epoll_set, fd < 0);
    return gs_own_descriptor(fd < 0 ? gs_sys_epoll_create(O_CLOEXEC) : fd);
}

static int get_dead_file(void)
{
    int none = -1, fd = atomic_load(&dead_file);
    if (fd >= 0)
        return fd;
    fd = open_dead_file();
    if (fd < 0 || atomic_compare_exchange_strong(&dead_file, &none, fd))
        return fd;
    gs_own_descriptor_close(fd);
    return none;
}

void gs_descriptor_close_done(void)
{
    int fd = atomic_exchange(&dead_file, -1);
    if (fd >= 0)
        gs_own_descriptor_close(fd);
}

/* ---- Calls in progress ---- */

bool gs_descriptor_is_dead(int fd)
{
    int flags = gs_sys_fcntl(fd, F_GETFL, 0);
    return flags >= 0 && (flags & O_PATH || atomic_load(&is_epoll_set));
}

/* A call that started before the file was replaced finds that `closes` has changed; one that starts
 * now sees CALLS_DEAD. */
static void close_dead(struct descriptor *descriptor, int fd)
{
    atomic_fetch_add(&descriptor->closes, 1);
    atomic_store(&descriptor->kind, KIND_UNKNOWN);
    atomic_store(&descriptor->is_nonblocking, false);
    gs_sys_close(fd);
}

/* Until the end this counts as a call, for which gs_forget waits. */
void gs_descriptor_release(struct descriptor *descriptor, int fd)
{
    unsigned short dead = CALLS_DEAD;
    if (!atomic_compare_exchange_strong(&descriptor->calls, &dead, CALLS_DEAD | 1))
        return;
    gs_chaos(CHAOS_CALL);
    if (gs_descriptor_is_dead(fd))
        close_dead(descriptor, fd);
    gs_chaos(CHAOS_RETURN);
    atomic_fetch_sub(&descriptor->calls, CALLS_DEAD | 1);
}

/* All accesses are sequentially consistent: either gs_close, which changes `closes` first, sees the
 * call, or the call sees the change. */
bool gs_opened_enter(const struct opened *file)
{
    struct descriptor *descriptor = file->descriptor;
    gs_chaos(CHAOS_PUBLISH);
    while (UNLIKELY((atomic_fetch_add(&descriptor->calls, 1) & ~CALLS_DEAD) >= CALLS_MAX)) {
        gs_opened_leave(file);
        gs_spin_pause();
    }
    gs_chaos(CHAOS_CALL);
    if (LIKELY(atomic_load(&descriptor->closes) == file->closes))
        return true;
    gs_opened_leave(file);
    return false;
}

void gs_opened_leave(const struct opened *file)
{
    gs_chaos(CHAOS_RETURN);
    if (UNLIKELY(atomic_fetch_sub(&file->descriptor->calls, 1) == (CALLS_DEAD | 1)))
        gs_descriptor_release(file->descriptor, file->fd);
}

/* Wait until no call looks the number up. Those of workers end soon; one in the pool may wait for a
 * disk. */
static void await_calls(struct descriptor *descriptor)
{
    static const struct wait_kind ending = {"the calls on a descriptor", .is_external = true,
                                            .ignores_cancel = true};
    while (UNLIKELY(atomic_load(&descriptor->calls))) {
        const struct worker *worker = worker_current();
        const struct wait wait = {.kind = &ending,
                                  .deadline_ns = gs_clock_now() + 100 * GS_MICROSECOND};
        if (!worker->current || worker->is_stack_in_use ||
            gs_thread_wait(worker->current, NULL, &wait) != -ETIMEDOUT)
            gs_spin_pause();
    }
}

/* ---- The calls ---- */

/* gs_close has left the number to calls that are still in progress, or it is being released. */
static int close_after_dead(struct descriptor *descriptor, int fd)
{
    if (gs_descriptor_is_dead(fd))
        return -EBADF;
    await_calls(descriptor);
    return gs_sys_close(fd);
}

/* Close the file, and leave the number to the calls in progress. An error of close(2) is lost. */
static int close_under_calls(struct descriptor *descriptor, int fd)
{
    if (atomic_load(&descriptor->calls) & CALLS_DEAD)
        return close_after_dead(descriptor, fd);
    int err = gs_sys_fcntl(fd, F_GETFD, 0); /* or dup3 would make a new one */
    int dead = err < 0 ? err : get_dead_file();
    if (err < 0)
        return err;
    if (dead >= 0)
        dead = gs_sys_dup3(dead, fd, O_CLOEXEC);
    if (dead < 0) {
        await_calls(descriptor);
        return gs_sys_close(fd);
    }
    atomic_fetch_or(&descriptor->calls, CALLS_DEAD);
    gs_descriptor_release(descriptor, fd);
    return 0;
}

/* While no user threads run, no descriptor is watched, and the table does not exist. */
static bool is_running(void)
{
    return LIKELY(atomic_load_explicit(&gs_runtime.is_running, memory_order_relaxed));
}

void gs_forget(int fd)
{
    if (!is_running())
        return;
    CHECKED_WORKER();
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor)
        return;
    gs_descriptor_forget(descriptor, KIND_UNKNOWN);
    await_calls(descriptor);
}

void gs_descriptor_reset(struct descriptor *descriptor, int fd, enum descriptor_kind kind)
{
    IF_CHECKED(gs_checked_new_descriptor(descriptor, fd));
    if (UNLIKELY(atomic_load_explicit(&descriptor->owner, memory_order_relaxed) ||
                 atomic_load_explicit(&descriptor->calls, memory_order_relaxed)))
        gs_forget(fd); /* it was closed without gs_close */
    atomic_store_explicit(&descriptor->maybe_ready, GS_READ | GS_WRITE, memory_order_relaxed);
    atomic_store_explicit(&descriptor->is_hung_up, false, memory_order_relaxed);
    atomic_store_explicit(&descriptor->kind, (unsigned char)kind, memory_order_relaxed);
}

/* A thread of another worker whose call begins when the queued threads have been woken and the file
 * is still open may wait. It is woken after the close, and its next system call fails with -EBADF.
 * By then another file may have the number, since close(2) releases it at its start: the threads
 * that wait for that file try their calls once more, and start a new watch. */
int gs_close(int fd)
{
    if (!is_running())
        return gs_sys_close(fd);
    CHECKED_WORKER();
    struct descriptor *descriptor = gs_descriptor(fd);
    if (!descriptor)
        return gs_sys_close(fd);
    IF_CHECKED(atomic_fetch_add(&descriptor->closing, 1));
    unsigned closes = gs_descriptor_forget(descriptor, KIND_CLOSING);
    gs_chaos(CHAOS_CALL);
    int err = LIKELY(!atomic_load(&descriptor->calls)) ? gs_sys_close(fd)
                                                       : close_under_calls(descriptor, fd);
    CHECKED(err != -EBADF, "descriptor %d is not open", fd);
    gs_descriptor_end_close(descriptor, closes);
    IF_CHECKED(atomic_fetch_sub(&descriptor->closing, 1));
    return err;
}
