#include "tests/loop/fixture.h"

static struct gs_loop *loop;
static int pair[2];
static struct gs_op a, b;
static int64_t result_of_a, result_of_b;
static int done;

static void on_done(struct gs_op *op, int64_t result)
{
    *(op == &a ? &result_of_a : &result_of_b) = result;
    done++;
}

static void set_up(void)
{
    loop = new_loop();
    gs_op_init(&a, loop, on_done);
    gs_op_init(&b, loop, on_done);
    result_of_a = result_of_b = -1;
    done = 0;
}

#define PAIR_TEST(name_)                                                                           \
    FIXTURE_TEST(name_, set_up(); connect_pair(pair), gs_loop_free(loop); close_pair(pair))

TEST(receive_completes_when_bytes_have_arrived)
{
    char bytes[8] = "";
    set_up();
    connect_pair(pair);
    CHECK_EQ(gs_op_recv(&a, pair[0], bytes, sizeof bytes, 0), 0);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(send(pair[1], "hello", 5, 0), 5);
    CHECK_EQ(done, 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 5);
    CHECK_STR(bytes, "hello");
    close(pair[1]);
    CHECK_EQ(gs_op_recv(&a, pair[0], bytes, sizeof bytes, 0), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 0);
    gs_loop_free(loop);
    close(pair[0]);
}

PAIR_TEST(active_operation_cannot_be_started)
{
    static char byte;
    CHECK_EQ(gs_op_recv(&a, pair[0], &byte, 1, 0), 0);
    CHECK_EQ(gs_op_recv(&a, pair[0], &byte, 1, 0), -EBUSY);
    CHECK_EQ(gs_op_send(&a, pair[0], &byte, 1, 0), -EBUSY);
    CHECK_EQ(gs_op_accept(&a, pair[0], 0), -EBUSY);
    CHECK_EQ(gs_op_read(&a, pair[0], &byte, 1, GS_OP_CURRENT_OFFSET), -EBUSY);
    CHECK_EQ(gs_op_write(&a, pair[0], &byte, 1, GS_OP_CURRENT_OFFSET), -EBUSY);
    CHECK_EQ(gs_op_recv(&b, -1, &byte, 1, 0), -EBADF);
    CHECK_EQ(gs_op_recv(&b, pair[1], &byte, 1, 0), 0);
}

PAIR_TEST(callback_is_not_called_from_the_starting_call)
{
    static char byte;
    put_byte(pair[1]);
    CHECK_EQ(gs_op_recv(&a, pair[0], &byte, 1, 0), 0);
    CHECK_EQ(gs_op_send(&b, pair[0], "x", 1, 0), 0);
    CHECK_EQ(done, 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 2);
    CHECK_EQ(result_of_a, 1);
    CHECK_EQ(result_of_b, 1);
}

PAIR_TEST(send_that_does_not_block_costs_no_interest)
{
    CHECK_EQ(gs_op_send(&a, pair[0], "hello", 5, 0), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 5);
    CHECK_INTEREST(loop, 0);
}

PAIR_TEST(send_waits_until_there_is_room_on_blocking_sockets_too)
{
    fill(pair[0]);
    fcntl(pair[0], F_SETFL, 0);
    CHECK_EQ(gs_op_send(&a, pair[0], "hello", 5, 0), 0);
    for (int i = 0; i < 4; i++)
        step(loop);
    CHECK_EQ(done, 0);
    drain(pair[1]);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 5);
}

TEST(errors_are_results)
{
    char byte;
    set_up();
    connect_pair(pair);
    close(pair[1]);
    CHECK_EQ(gs_op_send(&a, pair[0], "x", 1, 0), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, -EPIPE);
    int closed = dup(pair[0]);
    CHECK_EQ(gs_op_recv(&b, closed, &byte, 1, 0), 0);
    close(closed);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_b, -EBADF);
    gs_loop_free(loop);
    close(pair[0]);
}

TEST(accept_yields_a_new_descriptor)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    set_up();
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(listener, 8), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    CHECK_EQ(gs_op_accept(&a, listener, SOCK_CLOEXEC | SOCK_NONBLOCK), 0);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK(result_of_a >= 0);
    int accepted = (int)result_of_a;
    CHECK_EQ(fcntl(accepted, F_GETFD), FD_CLOEXEC);
    CHECK(fcntl(accepted, F_GETFL) & O_NONBLOCK);
    gs_loop_free(loop);
    close(accepted);
    close(client);
    close(listener);
}

TEST(file_is_written_and_read_at_offsets_and_at_its_own_position)
{
    char bytes[8] = "";
    set_up();
    FILE *file = tmpfile();
    int fd = fileno(file);
    CHECK_EQ(gs_op_write(&a, fd, "0123456789", 10, 0), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 10);
    CHECK_EQ(gs_op_read(&a, fd, bytes, 3, 4), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 3);
    CHECK_STR(bytes, "456");
    CHECK_INTEREST(loop, 0);
    CHECK_EQ(gs_op_read(&a, fd, bytes, 2, GS_OP_CURRENT_OFFSET), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 2);
    CHECK_EQ(gs_op_read(&a, fd, bytes + 2, 2, GS_OP_CURRENT_OFFSET), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    bytes[4] = 0;
    CHECK_STR(bytes, "0123");
    gs_loop_free(loop);
    fclose(file);
}

TEST(blocking_pipe_neither_blocks_the_loop_nor_loses_bytes)
{
    int ends[2];
    static char big[256 * 1024];
    char bytes[4] = "";
    set_up();
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(gs_op_read(&a, ends[0], bytes, 1, GS_OP_CURRENT_OFFSET), 0);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(gs_op_write(&b, ends[1], big, sizeof big, GS_OP_CURRENT_OFFSET), 0);
    while (done < 2)
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    CHECK_EQ(result_of_a, 1);
    CHECK(result_of_b > 0 && result_of_b < (int64_t)sizeof big);
    gs_loop_free(loop);
    close_pair(ends);
}

PAIR_TEST(cancelled_operation_is_called_back_once_with_that_result)
{
    static char byte;
    CHECK_EQ(gs_op_recv(&a, pair[0], &byte, 1, 0), 0);
    gs_op_cancel(&a);
    gs_op_cancel(&a);
    put_byte(pair[1]);
    CHECK_EQ(done, 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(result_of_a, -ECANCELED);
    gs_op_cancel(&a);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(gs_op_recv(&a, pair[0], &byte, 1, 0), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 1);
}

TEST(close_of_the_descriptor_cancels_active_operations)
{
    int next[2];
    char byte;
    set_up();
    connect_pair(pair);
    connect_pair(next);
    CHECK_EQ(gs_op_recv(&a, pair[0], &byte, 1, 0), 0);
    CHECK_EQ(gs_op_send(&b, pair[0], "x", 1, 0), 0);
    gs_loop_fd_closed(loop, pair[0]);
    dup2(next[0], pair[0]);
    gs_loop_check(loop);
    struct gs_io by_edges;
    gs_io_init(&by_edges, loop, NULL);
    start_io(&by_edges, pair[0], GS_READ | GS_EDGE);
    gs_io_stop(&by_edges);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, -ECANCELED);
    CHECK_EQ(result_of_b, -ECANCELED);
    put_byte(next[1]);
    CHECK_EQ(gs_op_recv(&a, pair[0], &byte, 1, 0), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 1);
    gs_loop_free(loop);
    close_pair(pair);
    close_pair(next);
}

PAIR_TEST(message_is_gathered_from_several_buffers)
{
    static char bytes[16] = "";
    struct iovec parts[] = {{"ab", 2}, {"", 0}, {"cde", 3}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    CHECK_EQ(gs_op_sendmsg(&a, pair[0], &message, 0), 0);
    CHECK_EQ(gs_op_sendmsg(&a, pair[0], &message, 0), -EBUSY);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 5);
    CHECK_EQ(read(pair[1], bytes, sizeof bytes), 5);
    CHECK_STR(bytes, "abcde");
}

TEST(file_is_flushed_and_other_descriptors_are_refused)
{
    set_up();
    FILE *file = tmpfile();
    CHECK_EQ(gs_op_fsync(&a, fileno(file)), 0);
    CHECK_EQ(gs_op_fsync(&a, fileno(file)), -EBUSY);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, 0);
    connect_pair(pair);
    CHECK_EQ(gs_op_fsync(&a, pair[0]), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result_of_a, -EINVAL);
    gs_loop_free(loop);
    fclose(file);
    close_pair(pair);
}

static char ping[1];
static int rounds;

static void again(struct gs_op *op, int64_t result)
{
    int fd = op->io.fd;
    if (result != 1 || ++rounds == 1000)
        gs_loop_stop(op->io.watcher.loop);
    else if (op == &a ? gs_op_send(&b, fd, ping, 1, 0) : gs_op_recv(&a, fd, ping, 1, 0))
        abort();
}

TEST(operations_started_in_callbacks_play_ping_pong_with_one_change_of_interest)
{
    set_up();
    connect_pair(pair);
    gs_op_init(&a, loop, again);
    gs_op_init(&b, loop, again);
    CHECK_EQ(gs_op_send(&b, pair[0], ping, 1, 0), 0);
    while (rounds < 1000) {
        CHECK(step(loop) >= 0);
        char byte;
        if (read(pair[1], &byte, 1) == 1)
            put_byte(pair[1]);
    }
    CHECK_INTEREST(loop, 1);
    gs_loop_free(loop);
    close_pair(pair);
}
