/* Arguments with which recv(2), send(2) and read(2) wait for more, or for nothing. */
#include "tests/thread/io/connection.h"

static char bytes[16];
static int ends[2];

THREAD(say_in_parts)
{
    for (const char *at = "abcdef"; *at; at++) {
        gs_thread_sleep(after(GS_MILLISECOND / 2));
        MUST_EQ(gs_sys_send(theirs, at, 1, 0), 1);
    }
}

static ssize_t receive(int fd, size_t n, int flags, uint64_t deadline_ns)
{
    memset(bytes, 0, sizeof bytes);
    return gs_recv(fd, bytes, n, flags, deadline_ns);
}

static ssize_t receive_from(int fd, size_t n, int flags, uint64_t deadline_ns)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    memset(bytes, 0, sizeof bytes);
    return gs_recvfrom(fd, bytes, n, flags, (struct sockaddr *)&address, &size, deadline_ns);
}

static ssize_t receive_parts(int fd, size_t n, int flags, uint64_t deadline_ns)
{
    struct iovec parts[] = {{bytes, 1}, {bytes, 0}, {bytes + 1, 2}, {bytes + 3, n - 3}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 4};
    memset(bytes, 0, sizeof bytes);
    return gs_recvmsg(fd, &message, flags, deadline_ns);
}

typedef ssize_t receive_fn(int fd, size_t n, int flags, uint64_t deadline_ns);
static receive_fn *const receives[] = {receive, receive_from, receive_parts};
enum { RECEIVES = sizeof receives / sizeof *receives, WITHOUT_PARTS = RECEIVES - 1 };

/* All bytes; at the deadline and the end of the stream, those that have arrived. */
static void wait_for_all(receive_fn *receive_by)
{
    connect_both();
    struct gs_thread *sender = spawn(say_in_parts, NULL);
    MUST_EQ(receive_by(ours, 6, MSG_WAITALL, GS_NEVER), 6);
    MUST(!memcmp(bytes, "abcdef", 6));
    join(sender);
    MUST_EQ(gs_sys_send(theirs, "gh", 2, 0), 2);
    MUST_EQ(receive_by(ours, 6, MSG_WAITALL | MSG_PEEK, GS_NEVER), 2);
    MUST_EQ(receive_by(ours, 6, MSG_WAITALL, after(2 * GS_MILLISECOND)), 2);
    MUST_EQ(receive_by(ours, 6, MSG_WAITALL, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_sys_send(theirs, "ij", 2, 0), 2);
    shutdown(theirs, SHUT_WR);
    MUST_EQ(receive_by(ours, 6, MSG_WAITALL, GS_NEVER), 2);
    MUST_EQ(receive_by(ours, 6, MSG_WAITALL, GS_NEVER), 0);
    close_both();
}

/* The error is not lost: it is the next call's. */
static void be_reset(receive_fn *receive_by)
{
    connect_both();
    MUST_EQ(gs_sys_send(theirs, "ab", 2, 0), 2);
    struct gs_thread *resetting = spawn(reset_later, NULL);
    MUST_EQ(receive_by(ours, 6, MSG_WAITALL, GS_NEVER), 2);
    MUST_EQ(receive_by(ours, 6, MSG_WAITALL, GS_NEVER), -ECONNRESET);
    MUST_EQ(receive_by(ours, 6, MSG_WAITALL, GS_NEVER), 0);
    join(resetting);
    gs_close(ours);
}

/* A datagram is received as it is. */
static void receive_datagram(receive_fn *receive_by)
{
    MUST_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends), 0);
    MUST_EQ(gs_sys_send(ends[1], "abc", 3, 0), 3);
    MUST_EQ(receive_by(ends[0], 6, MSG_WAITALL, GS_NEVER), 3);
    gs_close(ends[0]);
    gs_close(ends[1]);
}

THREAD_TEST(waitall_waits_for_all_bytes_of_a_stream, run_both)
{
    for (size_t i = 0; i < RECEIVES; i++) {
        wait_for_all(receives[i]);
        be_reset(receives[i]);
        receive_datagram(receives[i]);
    }
}

/* As the system calls, which do not wait with these either. */
THREAD_TEST(calls_that_must_not_wait_return_at_once, run_both)
{
    connect_both();
    for (size_t i = 0; i < WITHOUT_PARTS; i++) {
        MUST_EQ(receives[i](ours, 1, MSG_DONTWAIT, GS_NEVER), -EAGAIN);
        MUST_EQ(receives[i](ours, 1, MSG_ERRQUEUE, GS_NEVER), -EAGAIN);
        MUST_EQ(receives[i](ours, 1, MSG_OOB, GS_NEVER), -EINVAL);
        MUST_EQ(receives[i](ours, 1, 0, after(GS_MILLISECOND)), -ETIMEDOUT);
    }
    MUST_EQ(gs_sys_send(theirs, "x", 1, 0), 1);
    MUST_EQ(receive(ours, 1, 0, GS_NEVER), 1);
    ssize_t n;
    do
        n = gs_send(ours, bytes, sizeof bytes, MSG_DONTWAIT, GS_NEVER);
    while (n > 0);
    MUST_EQ(n, -EAGAIN);
    close_both();
}

/* Also after the socket is known to be empty, or full. */
THREAD(transfer_nothing)
{
    struct iovec nothing[2] = {{bytes, 0}, {bytes, 0}};
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    MUST_EQ(gs_read(ends[0], bytes, 0, GS_NEVER), 0);
    MUST_EQ(gs_read(ends[0], bytes, 1, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_read(ends[0], bytes, 0, GS_NEVER), 0);
    MUST_EQ(gs_readv(ends[0], nothing, 2, GS_NEVER), 0);
    while (gs_write(ends[0], bytes, sizeof bytes, after(GS_MILLISECOND)) > 0)
        ;
    MUST_EQ(gs_write(ends[0], bytes, 0, GS_NEVER), 0);
    MUST_EQ(gs_writev(ends[0], nothing, 2, GS_NEVER), 0);
    MUST_EQ(gs_writev(ends[0], nothing, 0, GS_NEVER), 0);
    MUST_EQ(gs_read(-1, bytes, 0, GS_NEVER), -EBADF);
    gs_close(ends[0]);
    gs_close(ends[1]);
}

/* As in older kernels. */
static long refuse_without_wait(long number, void *unused)
{
    (void)unused;
    return number == SYS_preadv2 || number == SYS_pwritev2 ? -ENOSYS : 0;
}

TEST(nothing_is_transferred_without_a_wait)
{
    run_both(transfer_nothing);
    gs_sys_set_fault(refuse_without_wait, NULL);
    run_both(transfer_nothing);
    gs_sys_set_fault(NULL, NULL);
}
