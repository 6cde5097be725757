/* gs_recv_ahead: the kernel receives while a thread waits in gs_recv_with, and nothing is lost that
 * arrives when none does. */
#include "tests/thread/connection.h"
#include "tests/thread/forking.h"
#include "tests/thread/stack_away.h"

#include <gossamer/resumable.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static atomic_uint tried;

/* Counts the receives that are system calls. */
static long count_calls(long number, void *data)
{
    (void)data;
    if (number == SYS_recvfrom)
        atomic_fetch_add(&tried, 1);
    return 0;
}

static void need_ring(void)
{
    struct gs_loop *loop;
    setenv("GS_POLLER", "io_uring", 1);
    CHECK_EQ(gs_loop_new(&loop), 0);
    bool is_there = !strcmp(gs_loop_poller(loop), "io_uring");
    gs_loop_free(loop);
    if (!is_there)
        SKIP("io_uring is not available");
}

/* What was received: every byte of a stream is known by its position. */
static size_t received, ends;

static char byte_at(size_t position)
{
    return (char)(position * 7 + position / 256);
}

static ssize_t check(void *data, const void *bytes, size_t n)
{
    (void)data;
    for (size_t i = 0; i < n; i++)
        MUST_EQ(((const char *)bytes)[i], byte_at(received + i));
    received += n;
    ends += !n;
    return (ssize_t)n;
}

static size_t said;

static void say(size_t n)
{
    char bytes[4096];
    MUST(n <= sizeof bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at(said + i);
    MUST_EQ(gs_sys_send(theirs, bytes, n, 0), n);
    said += n;
}

static void *say_later(void *n)
{
    gs_thread_sleep(after(2 * GS_MILLISECOND));
    say((uintptr_t)n);
    return NULL;
}

static void connect_ahead(void)
{
    connect_both();
    received = ends = said = 0;
    MUST_EQ(gs_recv_ahead(ours), 0);
}

/* Receive what arrives after the thread has begun to wait: then the ring goes on receiving. */
static void receive_awaited(size_t n)
{
    struct gs_thread *thread = spawn(say_later, (void *)(uintptr_t)n);
    size_t end = received + n;
    while (received < end)
        MUST(gs_recv_with(ours, check, NULL, GS_NEVER) > 0);
    join(thread);
}

/* Say something, and wait until the ring has received it, though no thread waits. */
static void have_received(size_t n)
{
    int in_socket = 0, unsent = 0;
    say(n);
    do {
        gs_thread_sleep(after(GS_MILLISECOND));
        MUST_EQ(ioctl(theirs, TIOCOUTQ, &unsent), 0);
        MUST_EQ(ioctl(ours, FIONREAD, &in_socket), 0);
    } while (unsent || in_socket);
}

/* ---- Receiving ---- */

static void *receive_many(void *unused)
{
    connect_ahead();
    receive_awaited(1);
    unsigned before = atomic_load(&tried);
    for (size_t i = 1; i < 20; i++)
        receive_awaited(i * 10);
    MUST_EQ(atomic_load(&tried), before);
    receive_awaited(4000); /* longer than a buffer */
    MUST_EQ(shutdown(theirs, SHUT_WR), 0);
    for (size_t i = 1; i <= 2; i++) {
        MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 0);
        MUST_EQ(ends, i);
    }
    close_both();
    return unused;
}

TEST(one_request_serves_many_receives)
{
    need_ring();
    gs_sys_set_fault(count_calls, NULL);
    run_both(receive_many);
    gs_sys_set_fault(NULL, NULL);
}

static void *reset_later(void *unused)
{
    const struct linger reset = {.l_onoff = 1};
    gs_thread_sleep(after(2 * GS_MILLISECOND));
    MUST_EQ(setsockopt(theirs, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    gs_sys_close(theirs);
    return unused;
}

static void *receive_reset(void *unused)
{
    connect_ahead();
    receive_awaited(10);
    struct gs_thread *thread = spawn(reset_later, NULL);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), -ECONNRESET);
    join(thread);
    gs_close(ours);
    return unused;
}

TEST(reset_is_an_error)
{
    need_ring();
    run_both(receive_reset);
}

/* ---- What arrives while no thread waits ---- */

static void take_by_recv(void)
{
    char bytes[6];
    MUST_EQ(gs_recv(ours, bytes, 4, MSG_PEEK, 0), 4);
    MUST_EQ(gs_recv(ours, bytes, 4, 0, 0), 4);
    check(NULL, bytes, 4);
    struct iovec parts[] = {{bytes, 1}, {bytes + 1, 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_flags = MSG_CTRUNC};
    MUST_EQ(gs_recvmsg(ours, &message, 0, 0), 3);
    MUST_EQ(message.msg_flags, 0);
    check(NULL, bytes, 3);
    MUST_EQ(gs_read(ours, bytes, 2, GS_NEVER), 2);
    check(NULL, bytes, 2);
    MUST_EQ(gs_readv(ours, parts, 2, GS_NEVER), 1);
    check(NULL, bytes, 1);
}

static void *receive_kept(void *unused)
{
    connect_ahead();
    receive_awaited(10);
    have_received(300);
    MUST_EQ(gs_recv_with(ours, check, NULL, 0), 300);
    MUST_EQ(gs_recv_with(ours, check, NULL, 0), -ETIMEDOUT);
    receive_awaited(10);
    MUST_EQ(gs_recv_with(ours, check, NULL, after(2 * GS_MILLISECOND)), -ETIMEDOUT);
    have_received(10);
    take_by_recv();
    receive_awaited(10);
    have_received(10);
    MUST_EQ(shutdown(theirs, SHUT_WR), 0);
    take_by_recv();
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 0);
    close_both();
    return unused;
}

TEST(what_arrives_between_two_calls_is_received_by_any_call)
{
    need_ring();
    run_both(receive_kept);
}

static void *poll_kept(void *unused)
{
    connect_ahead();
    receive_awaited(10);
    have_received(10);
    struct gs_poll poll = {.fd = ours, .events = GS_READ};
    MUST_EQ(gs_poll(&poll, 1, 0), 1);
    MUST_EQ(poll.revents, GS_READ);
    MUST_EQ(gs_wait_readable(ours, GS_NEVER), 0);
    MUST_EQ(gs_recv_with(ours, check, NULL, 0), 10);
    MUST_EQ(gs_poll(&poll, 1, 0), 0);
    MUST_EQ(gs_wait_readable(ours, after(2 * GS_MILLISECOND)), -ETIMEDOUT);
    struct gs_thread *thread = spawn(say_later, (void *)(uintptr_t)5);
    MUST_EQ(gs_poll(&poll, 1, GS_NEVER), 1);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 5);
    join(thread);
    receive_awaited(10);
    close_both();
    return unused;
}

TEST(poll_reports_what_was_received_and_then_what_is_in_the_socket)
{
    need_ring();
    run_both(poll_kept);
}

static void *fill_socket(void *unused)
{
    static const char zeros[65536];
    const size_t much = (size_t)64 << 20;
    connect_ahead();
    receive_awaited(10);
    size_t sent = 0;
    for (ssize_t n = 0; n != -EAGAIN && sent < much; sent += n > 0 ? (size_t)n : 0) {
        n = gs_sys_send(theirs, zeros, sizeof zeros, MSG_DONTWAIT);
        MUST(n > 0 || n == -EAGAIN);
        gs_thread_sleep(after(GS_MILLISECOND));
    }
    MUST(sent < much);
    ssize_t kept = gs_recv_ahead_end(ours);
    MUST(kept > 0 && kept <= 512 << 10);
    char bytes[4096];
    for (size_t left = sent; left;) {
        ssize_t n = gs_recv(ours, bytes, sizeof bytes, 0, GS_NEVER);
        MUST(n > 0 && !memcmp(bytes, zeros, (size_t)n));
        left -= (size_t)n;
    }
    close_both();
    return unused;
}

TEST(peer_that_never_stops_is_slowed_down)
{
    need_ring();
    run_with(1, fill_socket);
}

/* ---- Ends of a wait ---- */

static void *be_canceled(void *unused)
{
    MUST_EQ(gs_recv_ahead(ours), 0);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), -ECANCELED);
    gs_thread_set_cancelable(false);
    have_received(3);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 3);
    gs_close(ours);
    return unused;
}

static void *cancel_receiver(void *unused)
{
    connect_both();
    received = ends = said = 0;
    struct gs_thread *thread = spawn(be_canceled, NULL);
    gs_thread_sleep(after(2 * GS_MILLISECOND));
    gs_thread_cancel(thread);
    join(thread);
    gs_sys_close(theirs);
    return unused;
}

TEST(cancellation_ends_the_wait_and_loses_nothing)
{
    need_ring();
    run_both(cancel_receiver);
}

static atomic_bool is_receiving;

static void *be_closed(void *unused)
{
    MUST_EQ(gs_recv_ahead(ours), 0);
    receive_awaited(7);
    atomic_store(&is_receiving, true);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), -EBADF);
    return unused;
}

/* The closing thread runs on another worker, if there are several. */
static void *close_receiver(void *unused)
{
    for (int i = 0; i < 10; i++) {
        char byte;
        const struct gs_thread_attributes first = {.worker = 1};
        connect_both();
        received = ends = said = 0;
        atomic_store(&is_receiving, false);
        struct gs_thread *thread = spawn_as(&first, be_closed, NULL);
        while (!atomic_load(&is_receiving))
            gs_thread_sleep(after(GS_MILLISECOND));
        MUST_EQ(gs_close(ours), 0);
        join(thread);
        MUST_EQ(gs_recv(theirs, &byte, 1, 0, GS_NEVER), 0);
        gs_close(theirs);
    }
    return unused;
}

static void *close_from_another(void *unused)
{
    const struct gs_thread_attributes last = {.worker = 3};
    join(spawn_as(&last, close_receiver, NULL));
    return unused;
}

TEST(close_ends_the_wait_and_the_connection)
{
    need_ring();
    run_with(1, close_receiver);
    run_with(3, close_from_another);
}

/* ---- Others ---- */

static void *be_refused(void *unused)
{
    char byte;
    struct gs_poll poll = {.fd = ours, .events = GS_READ};
    MUST_EQ(gs_recv_ahead(ours), -EBUSY);
    MUST_EQ(gs_recv_ahead_end(ours), -EBUSY);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), -EBUSY);
    MUST_EQ(gs_recv(ours, &byte, 1, 0, GS_NEVER), -EBUSY);
    MUST_EQ(gs_poll(&poll, 1, GS_NEVER), -EBUSY);
    MUST_EQ(gs_wait_readable(ours, GS_NEVER), -EBUSY);
    MUST_EQ(gs_send(ours, "x", 1, 0, GS_NEVER), 1);
    return unused;
}

static void *refuse_others(void *unused)
{
    const struct gs_thread_attributes other = {.worker = gs_threads_worker() % 3 + 1};
    connect_ahead();
    receive_awaited(10);
    join(spawn_as(&other, be_refused, NULL));
    receive_awaited(10);
    close_both();
    return unused;
}

TEST(threads_of_other_workers_send_and_do_not_receive)
{
    need_ring();
    run_with(3, refuse_others);
}

static void *ask_for_what_cannot_be(void *unused)
{
    const bool is_ring = !strcmp(gs_threads_poller(), "io_uring");
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    connect_both();
    MUST_EQ(gs_recv_ahead(-1), -EBADF);
    MUST_EQ(gs_recv_ahead(udp), -ENOTSUP);
    MUST_EQ(gs_recv_ahead_end(udp), 0);
    MUST_EQ(gs_recv_ahead(ours), is_ring ? 0 : -ENOTSUP);
    MUST_EQ(gs_recv_ahead(ours), is_ring ? 0 : -ENOTSUP);
    gs_close(udp);
    close_both();
    return unused;
}

static void *migrate(void *unused)
{
    connect_both();
    MUST_EQ(gs_recv_ahead(ours), -ENOTSUP);
    close_both();
    return unused;
}

static void *refuse_migrating(void *unused)
{
    const struct gs_thread_attributes migrates = {.migrates = true};
    join(spawn_as(&migrates, migrate, NULL));
    return unused;
}

TEST(where_it_cannot_be_the_call_says_so)
{
    setenv("GS_POLLER", "epoll", 1);
    run_both(ask_for_what_cannot_be);
    need_ring();
    run_both(ask_for_what_cannot_be);
    run_with(3, refuse_migrating);
}

/* ---- Handing over ---- */

static void *hand_over(void *unused)
{
    char bytes[8];
    connect_ahead();
    receive_awaited(10);
    have_received(5);
    MUST_EQ(gs_recv_ahead_end(ours), 5);
    say(2);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 5);
    MUST_EQ(gs_recv_ahead_end(ours), 0);
    gs_forget(ours);
    MUST_EQ(recv(ours, bytes, sizeof bytes, 0), 2);
    check(NULL, bytes, 2);
    MUST_EQ(gs_recv_ahead(ours), 0);
    receive_awaited(10);
    close_both();
    return unused;
}

TEST(after_the_end_the_socket_has_all_that_comes)
{
    need_ring();
    run_both(hand_over);
}

static void *fork_with_kept(void *unused)
{
    connect_ahead();
    receive_awaited(10);
    have_received(5);
    pid_t pid = gs_fork();
    if (!pid) {
        MUST_EQ(gs_recv_with(ours, check, NULL, 0), -ETIMEDOUT);
        gs_close(ours);
        _exit(0);
    }
    int status = -1;
    MUST_EQ(gs_wait_child(pid, GS_NEVER, &status), 0);
    MUST_EQ(status, 0);
    MUST_EQ(gs_recv_with(ours, check, NULL, 0), 5);
    receive_awaited(10);
    close_both();
    return unused;
}

TEST(what_is_kept_is_the_parents)
{
    skip_without_fork();
    need_ring();
    run_unwatched(1, fork_with_kept);
}

static void *leave_open(void *unused)
{
    connect_ahead();
    receive_awaited(10);
    have_received(5);
    return unused;
}

static void *leave_receiving(void *unused)
{
    connect_ahead();
    receive_awaited(10);
    return unused;
}

TEST(run_may_end_while_the_kernel_receives)
{
    need_ring();
    run_both(leave_open);
    gs_sys_close(ours);
    gs_sys_close(theirs);
    run_both(leave_receiving);
    gs_sys_close(ours);
    gs_sys_close(theirs);
}

/* ---- Memory ---- */

static void *receive_one(void *unused)
{
    MUST_EQ(gs_recv_ahead(ours), 0);
    MUST_EQ(gs_recv_with(ours, check, NULL, GS_NEVER), 9);
    return unused;
}

static void *give_back(void *unused)
{
    connect_both();
    received = ends = said = 0;
    struct gs_thread *thread = spawn_as(&private, receive_one, NULL);
    wait_until_away(1);
    say(9);
    join(thread);
    close_both();
    return unused;
}

TEST(stack_is_given_back_while_the_kernel_receives)
{
    skip_if_emulated();
    need_ring();
    run_giving_back_both(give_back);
}

/* ---- Everything at once ---- */

enum { STREAM = 200000 };

static void *say_stream(void *unused)
{
    unsigned random = 7;
    while (said < STREAM) {
        random = random * 1103515245 + 12345;
        size_t n = random >> 16 & 1 ? (random >> 17) % 3000 + 1 : (random >> 17) % 50 + 1;
        say(n < STREAM - said ? n : STREAM - said);
        if (random >> 28 == 0)
            usleep(100);
    }
    MUST_EQ(shutdown(theirs, SHUT_WR), 0);
    return unused;
}

static bool receive_somehow(unsigned random)
{
    char bytes[1000];
    struct gs_poll poll = {.fd = ours, .events = GS_READ | GS_WRITE};
    uint64_t deadline_ns = random & 1 ? after((random >> 1 & 7) * 50000) : GS_NEVER;
    ssize_t n = -ETIMEDOUT;
    switch (random >> 8 & 15) {
    case 0:
        n = gs_recv(ours, bytes, random >> 12 & 511, 0, deadline_ns);
        if (n > 0)
            check(NULL, bytes, (size_t)n);
        return n || !(random >> 12 & 511);
    case 1:
        MUST(gs_poll(&poll, 1, 0) > 0);
        return true;
    case 2:
        MUST(gs_recv_ahead_end(ours) >= 0);
        MUST_EQ(gs_recv_ahead(ours), 0);
        return true;
    case 3:
        gs_thread_yield();
        return true;
    default:
        n = gs_recv_with(ours, check, NULL, random >> 7 & 1 ? 0 : deadline_ns);
        MUST(n >= 0 || n == -ETIMEDOUT || n == -ECANCELED);
        return n;
    }
}

static atomic_bool is_received;

static void *receive_stream(void *unused)
{
    unsigned random = 1;
    MUST_EQ(gs_recv_ahead(ours), 0);
    do
        random = random * 1103515245 + 12345;
    while (receive_somehow(random >> 4));
    MUST_EQ(received, STREAM);
    atomic_store(&is_received, true);
    return unused;
}

static void *exchange_stream(void *unused)
{
    pthread_t peer;
    connect_both();
    received = ends = said = 0;
    atomic_store(&is_received, false);
    struct gs_thread *thread = spawn(receive_stream, NULL);
    MUST_EQ(pthread_create(&peer, NULL, say_stream, NULL), 0);
    while (!atomic_load(&is_received))
        gs_thread_sleep(after(GS_MILLISECOND));
    join(thread);
    pthread_join(peer, NULL);
    close_both();
    return unused;
}

TEST(no_byte_is_lost_however_the_calls_alternate)
{
    need_ring();
    run_both(exchange_stream);
}

/* More sockets than the ring has buffers at first, of which all receive at once. */
enum { MANY = 100 };
static int pairs[MANY][2];

static ssize_t count(void *data, const void *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)data += n;
    return (ssize_t)n;
}

static void *receive_pair(void *pair)
{
    size_t n = 0;
    int fd = *(int *)pair;
    MUST_EQ(gs_recv_ahead(fd), 0);
    while (n < 3000)
        MUST(gs_recv_with(fd, count, &n, GS_NEVER) > 0);
    MUST_EQ(gs_recv_with(fd, count, &n, GS_NEVER), 0);
    MUST_EQ(n, 3000);
    gs_close(fd);
    return NULL;
}

static void *receive_all(void *unused)
{
    static const char zeros[3000];
    struct gs_thread *threads[MANY];
    for (int i = 0; i < MANY; i++) {
        connect_both();
        pairs[i][0] = ours;
        pairs[i][1] = theirs;
        threads[i] = spawn(receive_pair, pairs[i]);
    }
    for (int round = 0; round < 3; round++) {
        gs_thread_sleep(after(GS_MILLISECOND));
        for (int i = 0; i < MANY; i++)
            MUST_EQ(gs_sys_send(pairs[i][1], zeros, 1000, 0), 1000);
    }
    for (int i = 0; i < MANY; i++)
        gs_sys_close(pairs[i][1]);
    for (int i = 0; i < MANY; i++)
        join(threads[i]);
    return unused;
}

TEST(sockets_share_the_buffers)
{
    need_ring();
    run_both(receive_all);
}
