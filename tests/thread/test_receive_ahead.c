/* gs_recv_ahead: the kernel receives while a thread waits in gs_recv_with, and nothing is lost that
 * arrives when none does. */
#include "tests/thread/forking.h"
#include "tests/thread/receiving_ahead.h"
#include "tests/thread/stack_away.h"

#include <gossamer/resumable.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static atomic_uint tried;

/* Counts the receives that are system calls. */
static long count_calls(long number, void *data)
{
    (void)data;
    if (number == SYS_recvfrom)
        atomic_fetch_add(&tried, 1);
    return 0;
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
