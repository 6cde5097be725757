/* Operations that are active during a fork belong to the parent only. */
#include "tests/loop/op_fixture.h"

static void on_end(struct gs_op *each, int64_t result)
{
    (void)each;
    last_result = result;
    ended++;
}

static int status_of(pid_t child)
{
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

/* Runs in the child: the operation ends, and can be started again. */
static int run_child(int fd)
{
    if (gs_loop_after_fork(loop))
        return 1;
    gs_loop_check(loop);
    if (ended || gs_loop_run_once(loop, 0) < 0 || ended != 1 || last_result != -ECANCELED)
        return 2;
    if (gs_op_is_active(&op) || gs_op_recv_multishot(&op, op.io.fd))
        return 3;
    put(fd, "child");
    while (received_n < 5)
        if (gs_loop_run_once(loop, GS_NEVER) < 0)
            return 4;
    gs_loop_check(loop);
    int result = strcmp(received, "child") ? 5 : 0;
    gs_loop_free(loop);
    return result;
}

TEST(active_operation_ends_in_the_child_of_a_fork_and_continues_in_the_parent)
{
    int pair[2];
    set_up(on_bytes);
    connect_pair(pair);
    CHECK_EQ(gs_op_recv_multishot(&op, pair[0]), 0);
    step(loop);
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        _exit(run_child(pair[1]));
    CHECK_EQ(status_of(child), 0);
    put(pair[1], "parent");
    ITERATE_UNTIL(received_n);
    gs_loop_free(loop);
    close_pair(pair);
}

static int end_in_child(void)
{
    if (gs_loop_after_fork(loop) || gs_loop_run_once(loop, 0) < 0)
        return 1;
    if (ended != 1 || last_result != -ECANCELED)
        return 2;
    gs_loop_free(loop);
    return 0;
}

/* Returns how often H occurs in the received bytes; the bytes that filled the connection contain
 * none. */
static int count_messages(int fd)
{
    char bytes[4096];
    int count = 0;
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < n; i++)
            count += bytes[i] == 'H';
    return count;
}

TEST(message_that_waits_to_be_sent_when_the_process_forks_is_sent_once)
{
    int pair[2];
    set_up(on_end);
    connect_pair(pair);
    fill(pair[0]);
    CHECK_EQ(gs_op_send(&op, pair[0], "HELLO", 5, 0), 0);
    step(loop);
    CHECK_EQ(ended, 0);
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        _exit(end_in_child());
    CHECK_EQ(status_of(child), 0);
    int count = count_messages(pair[1]);
    ITERATE_UNTIL(ended);
    CHECK_EQ(last_result, 5);
    CHECK_EQ(count + count_messages(pair[1]), 1);
    gs_loop_free(loop);
    close_pair(pair);
}

TEST(operation_that_was_cancelled_before_the_fork_ends_in_both_processes)
{
    int pair[2];
    char byte;
    set_up(on_end);
    connect_pair(pair);
    CHECK_EQ(gs_op_recv(&op, pair[0], &byte, 1, 0), 0);
    step(loop);
    gs_op_cancel(&op);
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        _exit(end_in_child());
    CHECK_EQ(status_of(child), 0);
    ITERATE_UNTIL(ended);
    CHECK_EQ(last_result, -ECANCELED);
    gs_loop_free(loop);
    close_pair(pair);
}
