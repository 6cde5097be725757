/* Multishot operations, and behaviour that occurs only when the kernel executes operations. */
#include "tests/loop/op_fixture.h"

static int accepted[64], accepted_n;

static void on_connection(struct gs_op *each, int64_t result)
{
    (void)each;
    if (result >= 0)
        accepted[accepted_n++] = (int)result;
    else
        ended++;
    last_result = result;
}

static void set_up_accepting(void)
{
    set_up(on_connection);
    accepted_n = 0;
}

TEST(bytes_are_received_again_and_again_until_the_end)
{
    int pair[2];
    set_up(on_bytes);
    connect_pair(pair);
    CHECK_EQ(gs_op_recv_multishot(&op, pair[0]), 0);
    CHECK_EQ(gs_op_recv_multishot(&op, pair[0]), -EBUSY);
    CHECK_EQ(step(loop), 0);
    put(pair[1], "one");
    ITERATE_UNTIL(received_n == 3);
    put(pair[1], "two");
    ITERATE_UNTIL(received_n == 6);
    CHECK_STR(received, "onetwo");
    CHECK(gs_op_is_active(&op));
    put(pair[1], "!");
    close(pair[1]);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(received, "onetwo!");
    CHECK_EQ(last_result, 0);
    CHECK_EQ(ended, 1);
    CHECK(!gs_op_is_active(&op));
    gs_loop_free(loop);
    close(pair[0]);
}

TEST(cancelled_receiving_ends_after_what_was_received)
{
    int pair[2];
    set_up(on_bytes);
    connect_pair(pair);
    CHECK_EQ(gs_op_recv_multishot(&op, pair[0]), 0);
    gs_op_cancel(&op);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last_result, -ECANCELED);
    CHECK_EQ(gs_op_recv_multishot(&op, pair[0]), 0);
    CHECK_EQ(step(loop), 0);
    gs_op_cancel(&op);
    gs_op_cancel(&op);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(ended, 2);
    put(pair[1], "kept");
    CHECK_EQ(received_n, 0);
    CHECK_EQ(gs_op_recv_multishot(&op, pair[0]), 0);
    ITERATE_UNTIL(received_n == 4);
    CHECK_STR(received, "kept");
    gs_loop_free(loop);
    CHECK_EQ(ended, 2);
    close_pair(pair);
}

/* Sends many times the size of all buffers of the loop. */
TEST(no_byte_is_lost_however_many_arrive)
{
    enum { TOTAL = 16 * 1024 * 1024 };
    static char bytes[64 * 1024];
    int pair[2];
    uint64_t sent = 0;
    set_up(on_bytes);
    connect_pair(pair);
    CHECK_EQ(gs_op_recv_multishot(&op, pair[0]), 0);
    while (sent < TOTAL) {
        ssize_t n = write(pair[1], bytes, sizeof bytes);
        sent += n > 0 ? (uint64_t)n : 0;
        CHECK(step(loop) >= 0);
    }
    close(pair[1]);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(received_n, sent);
    CHECK_EQ(last_result, 0);
    gs_loop_free(loop);
    close(pair[0]);
}

enum { MANY = 700 };
static struct gs_op many[MANY];
static uint64_t received_by[MANY];

static void on_bytes_of_many(struct gs_op *each, int64_t result)
{
    if (result > 0)
        received_by[each - many] += (uint64_t)result;
    else
        ended++;
}

TEST(more_connections_than_buffers_all_get_theirs)
{
    static int pairs[MANY][2];
    set_up(on_bytes);
    int count = is_on(loop, "select") ? MANY / 2 : MANY;
    for (int i = 0; i < count; i++) {
        connect_pair(pairs[i]);
        gs_op_init(&many[i], loop, on_bytes_of_many);
        CHECK_EQ(gs_op_recv_multishot(&many[i], pairs[i][0]), 0);
    }
    step(loop);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < count; i++)
            put(pairs[i][1], "0123456789");
        for (int i = 0; i < count; i++)
            ITERATE_UNTIL(received_by[i] == 10 * (uint64_t)round);
    }
    for (int i = 0; i < count; i++)
        close(pairs[i][1]);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(ended, count);
    gs_loop_free(loop);
    for (int i = 0; i < count; i++)
        close(pairs[i][0]);
}

static void run_within(struct gs_op *each, int64_t result)
{
    on_bytes(each, result);
    if (result > 0 && received_n == 1)
        while (!ended)
            if (gs_loop_run_once(loop, GS_NEVER) < 0)
                abort();
}

TEST(operation_may_end_in_an_iteration_within_its_callback)
{
    int pair[2];
    set_up(run_within);
    struct gs_op *freed = malloc(sizeof *freed);
    gs_op_init(freed, loop, run_within);
    connect_pair(pair);
    CHECK_EQ(gs_op_recv_multishot(freed, pair[0]), 0);
    put_byte(pair[1]);
    put_byte(pair[1]);
    close(pair[1]);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(ended, 1);
    CHECK_EQ(received_n, 2);
    free(freed);
    gs_loop_free(loop);
    close(pair[0]);
}

static void cancel_within(struct gs_op *each, int64_t result)
{
    on_bytes(each, result);
    if (result > 0)
        gs_op_cancel(each);
}

static void free_at_end(struct gs_op *each, int64_t result)
{
    cancel_within(each, result);
    if (result <= 0)
        free(each);
}

TEST(operation_may_be_cancelled_in_its_callback_and_freed_in_the_last)
{
    int pair[2];
    set_up(on_bytes);
    struct gs_op *own = malloc(sizeof *own);
    gs_op_init(own, loop, free_at_end);
    connect_pair(pair);
    CHECK_EQ(gs_op_recv_multishot(own, pair[0]), 0);
    put(pair[1], "abc");
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(ended, 1);
    CHECK_EQ(last_result, -ECANCELED);
    CHECK_STR(received, "abc");
    gs_loop_free(loop);
    close_pair(pair);
}

static int listen_on(struct sockaddr_in *address)
{
    socklen_t length = sizeof *address;
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)address, sizeof *address), 0);
    CHECK_EQ(listen(fd, 64), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)address, &length), 0);
    return fd;
}

static int connect_to(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(fd, (const struct sockaddr *)address, sizeof *address), 0);
    return fd;
}

TEST(connections_are_accepted_again_and_again_until_it_is_cancelled)
{
    enum { CLIENTS = 20 };
    struct sockaddr_in address;
    int clients[CLIENTS];
    set_up_accepting();
    int listener = listen_on(&address);
    CHECK_EQ(gs_op_accept_multishot(&op, listener, SOCK_CLOEXEC | SOCK_NONBLOCK), 0);
    CHECK_EQ(step(loop), 0);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = connect_to(&address);
    ITERATE_UNTIL(accepted_n == CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(fcntl(accepted[i], F_GETFD), FD_CLOEXEC);
        CHECK(fcntl(accepted[i], F_GETFL) & O_NONBLOCK);
        close(accepted[i]);
        close(clients[i]);
    }
    gs_op_cancel(&op);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last_result, -ECANCELED);
    CHECK_EQ(ended, 1);
    gs_loop_free(loop);
    close(listener);
}

TEST(freeing_the_loop_with_active_operations_leaves_no_descriptor_open)
{
    struct sockaddr_in address;
    int pair[2];
    char byte = 'b';
    int next_fd = dup(0);
    close(next_fd);
    set_up_accepting();
    int listener = listen_on(&address);
    connect_pair(pair);
    CHECK_EQ(gs_op_accept_multishot(&op, listener, 0), 0);
    gs_op_init(&many[0], loop, on_bytes);
    gs_op_init(&many[1], loop, on_bytes);
    CHECK_EQ(gs_op_recv(&many[0], pair[0], &byte, 1, 0), 0);
    CHECK_EQ(gs_op_recv_multishot(&many[1], pair[1]), 0);
    step(loop);
    int client = connect_to(&address);
    gs_loop_free(loop);
    CHECK_EQ(ended + accepted_n, 0);
    CHECK(!gs_op_is_active(&op) && !gs_op_is_active(&many[0]));
    put_byte(pair[1]);
    CHECK_EQ(byte, 'b');
    close(client);
    close(listener);
    close_pair(pair);
    int fd = dup(0);
    close(fd);
    CHECK_EQ(fd, next_fd);
}

static void on_result(struct gs_op *single, int64_t result)
{
    (void)single;
    last_result = result;
    ended++;
}

TEST(operation_that_the_kernel_has_is_cancelled_within_an_iteration_or_two)
{
    int pair[2];
    char byte = 'b';
    set_up(on_result);
    connect_pair(pair);
    CHECK_EQ(gs_op_recv(&op, pair[0], &byte, 1, 0), 0);
    step(loop);
    gs_op_cancel(&op);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last_result, -ECANCELED);
    CHECK_EQ(ended, 1);
    put_byte(pair[1]);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(byte, 'b');
    gs_loop_free(loop);
    close_pair(pair);
}

TEST(number_of_a_closed_descriptor_serves_another_while_the_old_operation_ends)
{
    int pair[2], next[2];
    char old_byte = 'o', new_byte = 'n';
    set_up(on_result);
    connect_pair(pair);
    connect_pair(next);
    gs_op_init(&many[0], loop, on_result);
    CHECK_EQ(gs_op_recv(&op, pair[0], &old_byte, 1, 0), 0);
    step(loop);
    gs_loop_fd_closed(loop, pair[0]);
    dup2(next[0], pair[0]);
    CHECK_EQ(gs_op_recv(&many[0], pair[0], &new_byte, 1, 0), 0);
    gs_loop_check(loop);
    ITERATE_UNTIL(ended == 1);
    CHECK_EQ(last_result, -ECANCELED);
    CHECK(!gs_op_is_active(&op));
    put_byte(next[1]);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(last_result, 1);
    CHECK_EQ(new_byte, 'x');
    CHECK_EQ(old_byte, 'o');
    gs_loop_free(loop);
    close_pair(pair);
    close_pair(next);
}
