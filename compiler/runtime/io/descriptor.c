#include "compiler/runtime/io/descriptor.h"
#include "compiler/runtime/signals/masks.h"
#include "compiler/runtime/signals/signals.h"

#include <fcntl.h>
#include <gossamer/io.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is known of a descriptor: its kind; and whether a call that would block waits without a
 * limit, as it was in this generation. The next one begins whenever the program changes that for
 * any descriptor: another number may stand for the same file. */
#define KIND_BITS 7u
#define BLOCKS(direction_) (8u * (direction_)) /* of GS_READ and GS_WRITE */
#define GENERATION 32u

static atomic_uint known[GS_CC_DESCRIPTORS];
static atomic_uint generation;

static enum kind find_kind(int fd)
{
    struct stat status;
    if (fstat(fd, &status))
        return KIND_UNKNOWN;
    if (S_ISSOCK(status.st_mode))
        return KIND_SOCKET;
    if (S_ISFIFO(status.st_mode))
        return KIND_PIPE;
    return S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode)
               ? KIND_PLAIN
               : KIND_POLLED;
}

static atomic_uint *known_of(int fd)
{
    return fd >= 0 && (unsigned)fd < GS_CC_DESCRIPTORS ? &known[fd] : NULL;
}

static void set_known(int fd, unsigned value)
{
    atomic_uint *one = known_of(fd);
    if (one)
        atomic_store_explicit(one, value, memory_order_relaxed);
}

enum kind gs_cc_kind(int fd)
{
    atomic_uint *one = known_of(fd);
    if (!one)
        return KIND_UNKNOWN;
    enum kind kind = atomic_load_explicit(one, memory_order_relaxed) & KIND_BITS;
    if (kind == KIND_UNKNOWN) {
        kind = find_kind(fd);
        set_known(fd, kind);
    }
    return kind;
}

bool gs_cc_is_stream_socket(int fd)
{
    int type = 0, err = errno;
    socklen_t length = sizeof type;
    bool is_known = !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length);
    errno = err;
    return is_known && type == SOCK_STREAM;
}

void gs_cc_new_descriptor(int fd, enum kind kind)
{
    if (fd < 0)
        return;
    set_known(fd, kind);
    gs_forget(fd); /* it may have been closed by code that was not compiled */
}

bool gs_cc_is_known(int fd)
{
    return atomic_load_explicit(&known[fd], memory_order_relaxed);
}

void gs_cc_forget_kind(int fd)
{
    set_known(fd, KIND_UNKNOWN);
}

void gs_cc_forget_modes(void)
{
    atomic_fetch_add(&generation, GENERATION);
}

static bool is_ready(int fd, short events)
{
    struct pollfd one = {.fd = fd, .events = events};
    return poll(&one, 1, 0) != 0;
}

static ssize_t negated(ssize_t result)
{
    return result < 0 ? -errno : result;
}

/* A call that cannot be made without blocking is made when the descriptor is ready. */
ssize_t gs_cc_try_readv(int fd, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    enum kind kind = gs_cc_kind(fd);
    if (kind == KIND_SOCKET)
        return negated(recvmsg(fd, &message, MSG_DONTWAIT));
    if (kind == KIND_PIPE) {
        ssize_t n = negated(preadv2(fd, parts, count, -1, RWF_NOWAIT));
        if (n != -EOPNOTSUPP)
            return n;
    }
    if ((kind == KIND_PIPE || kind == KIND_POLLED) && !is_ready(fd, POLLIN))
        return -EAGAIN;
    return negated(readv(fd, parts, count));
}

/* A pipe that is ready has room for PIPE_BUF bytes. */
static ssize_t write_when_ready(int fd, const struct iovec *parts)
{
    size_t n = parts->iov_len < 4096 ? parts->iov_len : 4096;
    return is_ready(fd, POLLOUT) ? negated(write(fd, parts->iov_base, n)) : -EAGAIN;
}

static ssize_t write_pipe(int fd, const struct iovec *parts, int count)
{
    bool blocks = gs_cc_masks_block_pipe();
    ssize_t n = negated(pwritev2(fd, parts, count, -1, RWF_NOWAIT));
    if (n == -EOPNOTSUPP)
        n = write_when_ready(fd, parts);
    if (n == -EPIPE)
        gs_cc_take_pipe();
    gs_cc_masks_unblock_pipe(blocks);
    return n;
}

ssize_t gs_cc_sent(int fd, ssize_t result, int flags)
{
    if (result < 0 && errno == EPIPE && !(flags & MSG_NOSIGNAL) && gs_cc_is_stream_socket(fd))
        gs_cc_raise_pipe();
    return result;
}

ssize_t gs_cc_try_writev(int fd, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    enum kind kind = gs_cc_kind(fd);
    if (kind == KIND_SOCKET)
        return negated(gs_cc_sent(fd, sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL), 0));
    if (kind == KIND_PIPE)
        return write_pipe(fd, parts, count);
    return kind == KIND_POLLED ? write_when_ready(fd, parts) : negated(writev(fd, parts, count));
}

/* ---- When a call would block ---- */

uint64_t gs_cc_limit_of(int fd, unsigned direction)
{
    struct timeval limit = {0};
    socklen_t length = sizeof limit;
    int option = direction == GS_READ ? SO_RCVTIMEO : SO_SNDTIMEO;
    if (gs_cc_kind(fd) != KIND_SOCKET || getsockopt(fd, SOL_SOCKET, option, &limit, &length) ||
        (!limit.tv_sec && !limit.tv_usec))
        return GS_NEVER;
    return (uint64_t)limit.tv_sec * GS_SECOND + (uint64_t)limit.tv_usec * GS_MICROSECOND;
}

bool gs_cc_is_known_to_block(int fd, unsigned direction)
{
    unsigned now = atomic_load_explicit(&generation, memory_order_relaxed);
    const atomic_uint *one = known_of(fd);
    unsigned value = one ? atomic_load_explicit(one, memory_order_relaxed) : 0;
    return value & BLOCKS(direction) && value / GENERATION == now / GENERATION;
}

/* Returns for how long a call may wait; 0: the descriptor is non-blocking. If libraries can change
 * that, the kernel is asked each time. */
static uint64_t ask_limit(int fd, unsigned direction)
{
    unsigned now = atomic_load(&generation);
    atomic_uint *one = known_of(fd);
    unsigned before = one ? atomic_load_explicit(one, memory_order_relaxed) : 0;
    if (gs_cc_is_known_to_block(fd, direction))
        return GS_NEVER;
    if (fcntl(fd, F_GETFL) & O_NONBLOCK)
        return 0;
    uint64_t limit_ns = gs_cc_limit_of(fd, direction);
    if (limit_ns == GS_NEVER && gs_cc_is_self_contained) {
        unsigned others = before / GENERATION == now / GENERATION ? before & (GENERATION - 1) : 0;
        set_known(fd, now | others | BLOCKS(direction) | gs_cc_kind(fd));
    }
    return limit_ns;
}

void gs_cc_begin_limited_wait(struct thread *self, uint64_t limit_ns)
{
    if (self->extra)
        self->extra->deadline_ns = 0;
    if (limit_ns != GS_NEVER)
        gs_cc_deadline(self, gs_clock_after(gs_clock_now(), limit_ns));
    gs_cc_signals_begin_wait(self);
}

bool gs_cc_block(struct thread *self, int fd, unsigned direction, int *ret_err)
{
    *ret_err = EAGAIN;
    if (self->phase == PHASE_NEW) {
        uint64_t limit_ns = ask_limit(fd, direction);
        if (!limit_ns)
            return false;
        gs_cc_begin_limited_wait(self, limit_ns);
        set_phase(self, PHASE_WAITING);
    } else if (must_jump(self) || gs_cc_is_interrupted(self, true)) {
        *ret_err = must_jump(self) ? ECANCELED : EINTR;
        return false;
    }
    int err;
    if (gs_cc_wait_fd(self, fd, direction, limited_until(self), &err))
        return true;
    /* What cannot be watched would block in vain: EPERM is a file for which poll does not wait. */
    *ret_err = err == -ETIMEDOUT ? EAGAIN : -err;
    return false;
}

ssize_t gs_cc_result(struct thread *self, ssize_t result)
{
    self->progress = 0;
    if (self->phase != PHASE_NEW)
        gs_cc_complete(self);
    jump_if_told(self);
    if (result >= 0 || (result == -ECANCELED && gs_cc_test_cancel(self)))
        return result;
    errno = (int)-result;
    return -1;
}
