/* Descriptors that are closed with close, or twice. */
#include "tests/thread/checked/misuse.h"

static int pair[2];
static char byte;

static void make_pair(void)
{
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
}

static void *receive(void *unused)
{
    MUST(gs_recv(pair[0], &byte, 1, 0, GS_NEVER) <= 1);
    return unused;
}

/* A thread waits for pair[0]. */
static void let_other_wait(void)
{
    make_pair();
    spawn_named("waiting", receive, NULL);
    gs_thread_sleep(after(GS_MILLISECOND));
}

static void *close_twice(void *unused)
{
    make_pair();
    MUST_EQ(gs_close(pair[0]), 0);
    MUST_EQ(gs_close(pair[0]), -EBADF);
    return unused;
}

static void *close_after_plain_close(void *unused)
{
    let_other_wait();
    close(pair[0]);
    gs_close(pair[0]);
    return unused;
}

/* The number comes back from socketpair. */
static void *wait_for_reused_number(void *unused)
{
    let_other_wait();
    int old = pair[0];
    close(pair[0]);
    close(pair[1]);
    make_pair();
    MUST_EQ(pair[0], old);
    MUST_EQ(gs_recv(pair[0], &byte, 1, 0, after(GS_SECOND)), -ETIMEDOUT);
    return unused;
}

static void *poll_reused_number(void *unused)
{
    struct gs_poll polls[] = {{.events = GS_READ}};
    let_other_wait();
    close(pair[0]);
    close(pair[1]);
    make_pair();
    polls[0].fd = pair[0];
    MUST_EQ(gs_poll(polls, 1, after(GS_SECOND)), 0);
    return unused;
}

static void *wait_for_closed_number(void *unused)
{
    let_other_wait();
    close(pair[0]);
    MUST_EQ(gs_wait_readable(pair[0], after(GS_SECOND)), -EBADF);
    return unused;
}

/* A listening socket, and a client whose connection is pending. */
static int listener, client;

static void make_pending_connection(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    client = socket(AF_INET, SOCK_STREAM, 0);
    MUST_EQ(bind(listener, (struct sockaddr *)&address, length), 0);
    MUST_EQ(listen(listener, 8), 0);
    MUST_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    MUST_EQ(connect(client, (struct sockaddr *)&address, length), 0);
}

static void *accept_reused_number(void *unused)
{
    make_pending_connection();
    let_other_wait();
    close(pair[0]);
    MUST_EQ(gs_accept(listener, NULL, NULL, 0, GS_NEVER), pair[0]);
    return unused;
}

IN_CHILD_RUN(run_close_twice, close_twice)
IN_CHILD_RUN(run_close_after_plain_close, close_after_plain_close)
IN_CHILD_RUN(run_wait_for_reused_number, wait_for_reused_number)
IN_CHILD_RUN(run_poll_reused_number, poll_reused_number)
IN_CHILD_RUN(run_wait_for_closed_number, wait_for_closed_number)
IN_CHILD_RUN(run_accept_reused_number, accept_reused_number)

#define NOT_CLOSED_HERE                                                                            \
    "descriptor [0-9]+ was closed without gs_close or gs_forget, and was in use before"

TEST(a_descriptor_is_not_closed_twice)
{
    CHECK_STOPPED(run_close_twice, "gs_close", "descriptor [0-9]+ is not open");
    CHECK_STOPPED(run_close_after_plain_close, "gs_close", "descriptor [0-9]+ is not open");
}

TEST(a_number_that_comes_back_after_close_is_noticed)
{
    CHECK_STOPPED(run_wait_for_reused_number, "gs_recv", NOT_CLOSED_HERE);
    CHECK_STOPPED(run_poll_reused_number, "gs_poll", NOT_CLOSED_HERE);
    CHECK_STOPPED(run_accept_reused_number, "gs_accept", NOT_CLOSED_HERE);
}

TEST(a_wait_for_a_number_that_was_closed_is_noticed)
{
    CHECK_STOPPED(run_wait_for_closed_number, "gs_wait_readable", NOT_CLOSED_HERE);
}

/* ---- Correct use ---- */

static void *receive_until_closed(void *unused)
{
    MUST_EQ(gs_recv(pair[0], &byte, 1, 0, GS_NEVER), -EBADF);
    return unused;
}

static void *reuse_numbers(void *unused)
{
    for (int i = 0; i < 50; i++) {
        make_pair();
        struct gs_thread *thread = spawn(receive_until_closed, NULL);
        gs_thread_sleep(after(100 * GS_MICROSECOND));
        MUST_EQ(gs_recv(pair[1], &byte, 1, 0, after(100 * GS_MICROSECOND)), -ETIMEDOUT);
        MUST_EQ(gs_close(pair[0]), 0);
        join(thread);
        gs_forget(pair[1]);
        close(pair[1]);
    }
    MUST_EQ(gs_close(-1), -EBADF);
    return unused;
}

static void *accept_again(void *unused)
{
    make_pending_connection();
    let_other_wait();
    int old = pair[0];
    gs_forget(old);
    close(old);
    int fd = gs_accept(listener, NULL, NULL, 0, GS_NEVER);
    MUST_EQ(fd, old);
    MUST_EQ(gs_recv(fd, &byte, 1, 0, after(GS_MILLISECOND)), -ETIMEDOUT);
    gs_close(fd);
    gs_close(listener);
    gs_close(client);
    gs_close(pair[1]);
    return unused;
}

TEST(numbers_are_reused_after_gs_close_and_gs_forget)
{
    run_both(reuse_numbers);
    run_with(1, accept_again);
}
