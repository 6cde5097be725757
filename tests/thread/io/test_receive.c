/* gs_recv_with: receiving into the worker's buffer, from TCP, since the kernel reports the end of
 * other sockets differently. */
#include "tests/thread/io/connection.h"

/* The arguments with which fn was called. */
struct received {
    char bytes[256];
    size_t n;
    unsigned calls, ends;
    ssize_t result; /* the return value of fn */
};

static ssize_t collect(void *data, const void *bytes, size_t n)
{
    struct received *received = data;
    MUST(received->n + n <= sizeof received->bytes);
    memcpy(received->bytes + received->n, bytes, n);
    received->n += n;
    received->calls++;
    received->ends += !n;
    return received->result;
}

static void *say_at_once(void *text)
{
    MUST_EQ(gs_sys_send(theirs, text, strlen(text), 0), strlen(text));
    return NULL;
}

static void *say(void *text)
{
    gs_thread_sleep(after(2 * GS_MILLISECOND));
    return say_at_once(text);
}

/* On a busy machine, bytes arrive a moment after the call that sends them. */
static void await_bytes(void)
{
    struct pollfd ready = {.fd = ours, .events = POLLIN};
    MUST_EQ(poll(&ready, 1, -1), 1);
}

/* ---- Received data ---- */

THREAD_TEST(bytes_are_passed_on_as_they_arrive_with_and_without_a_wait, run_both)
{
    struct received received = {.result = 7};
    connect_both();
    say("ab");
    MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), 7);
    struct gs_thread *thread = spawn(say, "cde");
    MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), 7);
    join(thread);
    thread = spawn(say, "f");
    MUST_EQ(gs_recv_with(ours, collect, &received, after(20 * GS_SECOND)), 7);
    join(thread);
    MUST(received.n == 6 && !memcmp(received.bytes, "abcdef", 6));
    MUST_EQ(received.calls, 3);
    close_both();
}

static char page[3000];

static ssize_t compare(void *data, const void *bytes, size_t n)
{
    size_t *at = data;
    MUST(*at + n <= sizeof page && !memcmp(page + *at, bytes, n));
    *at += n;
    return (ssize_t)n;
}

THREAD(say_page)
{
    gs_thread_sleep(after(2 * GS_MILLISECOND));
    MUST_EQ(gs_sys_send(theirs, page, sizeof page, 0), sizeof page);
}

THREAD_TEST(what_is_longer_than_the_kernel_receives_at_once_is_complete, run_both)
{
    size_t at = 0;
    for (size_t i = 0; i < sizeof page; i++)
        page[i] = (char)(i * 7 + i / 256);
    connect_both();
    struct gs_thread *thread = spawn(say_page, NULL);
    while (at < sizeof page)
        MUST(gs_recv_with(ours, compare, &at, after(20 * GS_SECOND)) > 0);
    join(thread);
    close_both();
}

THREAD_TEST(end_of_the_stream_is_no_bytes, run_both)
{
    struct received received = {.result = 3};
    connect_both();
    say("x");
    MUST_EQ(shutdown(theirs, SHUT_WR), 0);
    MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), 3);
    MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), 3);
    MUST_EQ(received.n, 1);
    MUST_EQ(received.ends, 1);
    MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), 3);
    MUST_EQ(received.ends, 2);
    close_both();
}

THREAD(end_later)
{
    gs_thread_sleep(after(2 * GS_MILLISECOND));
    MUST_EQ(shutdown(theirs, SHUT_WR), 0);
}

THREAD_TEST(end_of_the_stream_ends_a_wait, run_both)
{
    struct received received = {.result = 3};
    connect_both();
    struct gs_thread *thread = spawn(end_later, NULL);
    MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), 3);
    MUST_EQ(received.ends, 1);
    join(thread);
    close_both();
}

THREAD_TEST(reset_is_an_error_and_the_function_is_not_called, run_both)
{
    struct received received = {0};
    connect_both();
    struct gs_thread *thread = spawn(reset_later, NULL);
    MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), -ECONNRESET);
    MUST_EQ(received.calls, 0);
    join(thread);
    gs_close(ours);
}

/* ---- Ends of a wait ---- */

THREAD_TEST(deadline_ends_the_wait_and_the_deadline_0_only_tries, run_both)
{
    struct received received = {0};
    connect_both();
    MUST_EQ(gs_recv_with(ours, collect, &received, 0), -ETIMEDOUT);
    MUST_EQ(gs_recv_with(ours, collect, &received, after(2 * GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(gs_recv_with(-1, collect, &received, 0), -EBADF);
    MUST_EQ(received.calls, 0);
    say("x");
    await_bytes();
    MUST_EQ(gs_recv_with(ours, collect, &received, 0), 0);
    MUST_EQ(received.n, 1);
    close_both();
}

THREAD(be_canceled)
{
    struct received received = {0};
    MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), -ECANCELED);
    gs_thread_set_cancelable(false);
    say("x");
    MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), 0);
    MUST_EQ(received.n, 1);
}

THREAD_TEST(canceled_receive_takes_nothing, run_both)
{
    connect_both();
    struct gs_thread *thread = spawn(be_canceled, NULL);
    gs_thread_sleep(after(2 * GS_MILLISECOND));
    gs_thread_cancel(thread);
    join(thread);
    close_both();
}

THREAD(receive_closed)
{
    struct received received = {0};
    MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), -EBADF);
}

/* The same descriptor numbers are used for several connections, one after the other. */
THREAD_TEST(number_of_a_closed_socket_serves_the_next, run_both)
{
    for (int i = 0; i < 5; i++) {
        struct received received = {0};
        connect_both();
        struct gs_thread *waiting = spawn(say, "x");
        MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), 0);
        MUST_EQ(received.n, 1);
        join(waiting);
        waiting = spawn(receive_closed, NULL);
        gs_thread_sleep(after(2 * GS_MILLISECOND));
        gs_close(ours);
        join(waiting);
        gs_sys_close(theirs);
    }
}

/* ---- The stack on which the function runs ---- */

static struct received inner;

/* The inner call has a buffer of its own. */
static ssize_t receive_within(void *data, const void *bytes, size_t n)
{
    char before[8];
    MUST_EQ(n, 2);
    memcpy(before, bytes, n);
    say_at_once("cd");
    await_bytes();
    MUST_EQ(gs_recv_with(ours, collect, &inner, 0), 0);
    MUST(!memcmp(bytes, before, n));
    return collect(data, bytes, n);
}

static void *receive_nested(void *received)
{
    MUST_EQ(gs_recv_with(ours, receive_within, received, 0), 0);
    return received;
}

THREAD_TEST(calls_may_be_nested, run_both)
{
    struct received received = {0};
    inner = (struct received){0};
    connect_both();
    say_at_once("ab");
    await_bytes();
    MUST(gs_thread_call_on_worker_stack(receive_nested, &received) == &received);
    MUST(received.n == 2 && !memcmp(received.bytes, "ab", 2));
    MUST(inner.n == 2 && !memcmp(inner.bytes, "cd", 2));
    close_both();
}

static unsigned receive_calls;

static long count_receives(long number, void *data)
{
    (void)data;
    receive_calls += number == SYS_recvfrom;
    return 0;
}

THREAD(receive_again)
{
    struct received received = {0};
    connect_both();
    MUST_EQ(gs_recv_with(ours, collect, &received, after(GS_MILLISECOND)), -ETIMEDOUT);
    gs_sys_set_fault(count_receives, NULL);
    receive_calls = 0;
    for (int i = 0; i < 10; i++) {
        struct gs_thread *thread = spawn(say, "x");
        MUST_EQ(gs_recv_with(ours, collect, &received, GS_NEVER), 0);
        join(thread);
    }
    gs_sys_set_fault(NULL, NULL);
    MUST_EQ(received.n, 10);
    close_both();
}

TEST(after_a_wait_one_system_call_is_made)
{
    run_with(1, receive_again);
    CHECK(receive_calls <= 10);
}
