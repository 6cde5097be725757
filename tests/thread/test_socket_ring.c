/* I/O calls on sockets with completions. */
#include "tests/thread/connection.h"
#include "tests/thread/forking.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static atomic_bool is_counting;
static atomic_uint tried;

/* Counts the system calls that each receive and send makes without a ring. */
static long count_calls(long number, void *data)
{
    (void)data;
    bool is_try = number == SYS_recvfrom || number == SYS_sendto || number == SYS_accept4;
    if (is_try && atomic_load(&is_counting))
        atomic_fetch_add(&tried, 1);
    return 0;
}

/* Wait until all threads except the caller wait. */
static void let_others_wait(void)
{
    gs_thread_sleep(after(GS_MILLISECOND));
}

static void *receive(void *bytes)
{
    return (void *)(intptr_t)gs_recv(ours, bytes, 16, 0, GS_NEVER);
}

static void *exchange(void *unused)
{
    char bytes[16] = "", answer[16] = "";
    connect_both();
    /* The first receive tries without waiting, because bytes have usually arrived. */
    MUST_EQ(write(theirs, "first", 5), 5);
    MUST_EQ((intptr_t)receive(bytes), 5);
    atomic_store(&is_counting, true);
    for (int i = 0; i < 20; i++) {
        struct gs_thread *receiver = spawn(receive, bytes);
        MUST_EQ(write(theirs, "question", 8), 8);
        MUST_EQ((intptr_t)join(receiver), 8);
        MUST(!memcmp(bytes, "question", 8));
        MUST_EQ(gs_send(ours, "answer", 6, 0, GS_NEVER), 6);
        MUST_EQ(read(theirs, answer, sizeof answer), 6);
        MUST(!memcmp(answer, "answer", 6));
    }
    atomic_store(&is_counting, false);
    MUST_EQ(atomic_load(&tried), 0);
    shutdown(theirs, SHUT_WR);
    MUST_EQ((intptr_t)receive(bytes), 0);
    close_both();
    return unused;
}

TEST(threads_that_wait_make_no_system_calls_of_their_own)
{
    need_ring();
    gs_sys_set_fault(count_calls, NULL);
    run_both(exchange);
    gs_sys_set_fault(NULL, NULL);
}

static void *receive_in_time(void *unused)
{
    char bytes[16];
    connect_both();
    for (int i = 0; i < 50; i++) {
        MUST_EQ(gs_recv(ours, bytes, sizeof bytes, 0, after(10 * GS_MICROSECOND)), -ETIMEDOUT);
        MUST_EQ(write(theirs, "late", 4), 4);
        MUST_EQ(gs_recv(ours, bytes, sizeof bytes, 0, GS_NEVER), 4);
        MUST(!memcmp(bytes, "late", 4));
    }
    close_both();
    return unused;
}

TEST(no_byte_is_lost_by_a_deadline)
{
    need_ring();
    run_both(receive_in_time);
}

static void *receive_until_canceled(void *unused)
{
    char bytes[16] = "";
    connect_both();
    struct gs_thread *receiver = spawn(receive, bytes);
    let_others_wait();
    gs_thread_cancel(receiver);
    MUST_EQ((intptr_t)join(receiver), -ECANCELED);
    MUST_EQ(write(theirs, "kept", 4), 4);
    MUST_EQ(gs_recv(ours, bytes, sizeof bytes, 0, GS_NEVER), 4);
    close_both();
    return unused;
}

TEST(canceled_receive_takes_nothing)
{
    need_ring();
    run_both(receive_until_canceled);
}

static void *close_under_receiver(void *unused)
{
    char bytes[16] = "";
    connect_both();
    struct gs_thread *receiver = spawn(receive, bytes);
    let_others_wait();
    gs_close(ours);
    MUST_EQ((intptr_t)join(receiver), -EBADF);
    MUST_EQ(gs_recv(theirs, bytes, sizeof bytes, 0, GS_NEVER), 0);
    gs_close(theirs);
    return unused;
}

TEST(receive_ends_when_the_connection_is_closed_by_another_thread)
{
    need_ring();
    run_both(close_under_receiver);
}

static void *poll_ours(void *unused)
{
    struct gs_poll poll = {.fd = ours, .events = GS_READ};
    MUST(gs_poll(&poll, 1, GS_NEVER) >= 0);
    return unused;
}

static void *poll_beside_receiver(void *unused)
{
    char bytes[16] = "";
    connect_both();
    struct gs_thread *receiver = spawn(receive, bytes);
    let_others_wait();
    struct gs_thread *poller = spawn(poll_ours, NULL);
    let_others_wait();
    MUST_EQ(write(theirs, "bytes", 5), 5);
    MUST_EQ((intptr_t)join(receiver), 5);
    MUST_EQ(write(theirs, "more", 4), 4);
    join(poller);
    MUST_EQ(gs_recv(ours, bytes, sizeof bytes, 0, GS_NEVER), 4);
    close_both();
    return unused;
}

TEST(receiver_and_poll_wait_for_the_same_connection)
{
    need_ring();
    run_both(poll_beside_receiver);
}

enum { MANY = 1 << 22 };

static void *send_many(void *unused)
{
    static const char bytes[MANY];
    struct iovec parts[] = {{(void *)bytes, MANY / 2}, {(void *)(bytes + MANY / 2), MANY / 2}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    size_t sent = 0;
    MUST_EQ(gs_send_all(ours, bytes, MANY, GS_NEVER), MANY);
    for (ssize_t n; sent < MANY; sent += (size_t)n) {
        n = gs_sendmsg(ours, &message, 0, GS_NEVER);
        MUST(n > 0);
    }
    MUST_EQ(gs_write(ours, bytes, 1000, GS_NEVER), 1000);
    shutdown(ours, SHUT_WR);
    (void)unused;
    return (void *)(sent + MANY + 1000);
}

static void *send_to_slow_reader(void *unused)
{
    static char bytes[1 << 16];
    size_t got = 0;
    connect_both();
    struct gs_thread *sender = spawn(send_many, NULL);
    for (ssize_t n; (n = gs_read(theirs, bytes, sizeof bytes, GS_NEVER)); got += (size_t)n)
        MUST(n > 0);
    MUST_EQ((size_t)join(sender), got);
    gs_close(ours);
    gs_close(theirs);
    return unused;
}

TEST(sender_waits_for_room)
{
    need_ring();
    run_both(send_to_slow_reader);
}

static void *accept_one(void *argument)
{
    struct sockaddr_in peer = {0};
    socklen_t length = sizeof peer;
    int fd = gs_accept(*(int *)argument, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC, GS_NEVER);
    if (fd < 0)
        return (void *)(intptr_t)fd;
    MUST_EQ(length, sizeof peer);
    MUST_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    MUST_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    gs_close(fd);
    return (void *)(intptr_t)peer.sin_port;
}

static void *accept_waiting(void *unused)
{
    struct sockaddr_in address, own = {0};
    socklen_t length = sizeof own;
    int listener = listen_anywhere(&address);
    struct gs_thread *acceptor = spawn(accept_one, &listener);
    let_others_wait();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    MUST_EQ(getsockname(fd, (struct sockaddr *)&own, &length), 0);
    MUST_EQ((intptr_t)join(acceptor), own.sin_port);
    acceptor = spawn(accept_one, &listener);
    let_others_wait();
    gs_thread_cancel(acceptor);
    MUST_EQ((intptr_t)join(acceptor), -ECANCELED);
    close(fd);
    gs_close(listener);
    return unused;
}

TEST(waiting_accept_returns_the_address_of_the_client)
{
    need_ring();
    run_both(accept_waiting);
}

/* More operations than the ring has entries. */
enum { PAIRS = 1500 };
static int pairs[PAIRS][2];

static void *echo(void *pair)
{
    char bytes[16];
    const int *fds = pair;
    for (ssize_t n; (n = gs_recv(fds[0], bytes, sizeof bytes, 0, GS_NEVER));)
        MUST_EQ(gs_send(fds[0], bytes, (size_t)n, 0, GS_NEVER), n);
    gs_close(fds[0]);
    return NULL;
}

static void *echo_many(void *unused)
{
    static struct gs_thread *echoes[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]), 0);
        echoes[i] = spawn(echo, pairs[i]);
    }
    for (int round = 0; round < 3; round++) {
        char byte = (char)('a' + round), back = 0;
        for (int i = 0; i < PAIRS; i++)
            MUST_EQ(write(pairs[i][1], &byte, 1), 1);
        for (int i = 0; i < PAIRS; i++) {
            MUST_EQ(gs_recv(pairs[i][1], &back, 1, 0, GS_NEVER), 1);
            MUST_EQ(back, byte);
        }
    }
    for (int i = 0; i < PAIRS; i++)
        gs_close(pairs[i][1]);
    for (int i = 0; i < PAIRS; i++)
        join(echoes[i]);
    return unused;
}

TEST(more_wait_than_the_ring_has_entries)
{
    struct rlimit limit = {2 * PAIRS + 100, 0};
    struct rlimit now;
    need_ring();
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
    limit.rlim_max = now.rlim_max;
    if (now.rlim_max < limit.rlim_cur)
        SKIP("too few descriptors");
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    run_both(echo_many);
}

static void *fork_beside_receiver(void *unused)
{
    char bytes[16] = "";
    int status;
    connect_both();
    struct gs_thread *receiver = spawn(receive, bytes);
    let_others_wait();
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        gs_forget(ours);
        _exit(gs_send(ours, "child", 5, 0, GS_NEVER) == 5 ? 0 : 1);
    }
    MUST_EQ(gs_wait_child(pid, GS_NEVER, &status), 0);
    MUST_EQ(status, 0);
    MUST_EQ(gs_recv(theirs, bytes, sizeof bytes, 0, GS_NEVER), 5);
    MUST_EQ(write(theirs, "parent", 6), 6);
    MUST_EQ((intptr_t)join(receiver), 6);
    MUST(!memcmp(bytes, "parent", 6));
    close_both();
    return unused;
}

TEST(pending_call_stays_with_the_parent_in_a_fork)
{
    need_ring();
    if (GS_TSAN)
        SKIP("the thread sanitizer does not support user threads in a child");
    if (IS_GCC_ASAN)
        return; /* for the reason in forking.h */
    run_both(fork_beside_receiver);
}
