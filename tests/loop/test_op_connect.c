/* Connecting as an operation of the loop. */
#include "tests/loop/fixture.h"

static struct gs_loop *loop;
static struct gs_op connecting, other;
static int64_t result;
static int done;

static void on_connected(struct gs_op *op, int64_t connect_result)
{
    (void)op;
    result = connect_result;
    done++;
}

static void set_up(void)
{
    loop = new_loop();
    gs_op_init(&connecting, loop, on_connected);
    gs_op_init(&other, loop, on_connected);
    result = 1;
    done = 0;
}

static int new_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    return fd;
}

/* A socket at a free port of the loopback interface, and its address. While it does not listen, it
 * keeps the port from others, and connections to it are refused. */
static int new_bound(struct sockaddr_in *ret_address)
{
    socklen_t length = sizeof *ret_address;
    int fd = new_socket(AF_INET);
    *ret_address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_EQ(bind(fd, (struct sockaddr *)ret_address, sizeof *ret_address), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)ret_address, &length), 0);
    return fd;
}

static int new_listener(struct sockaddr_in *ret_address, int backlog)
{
    int listener = new_bound(ret_address);
    CHECK_EQ(listen(listener, backlog), 0);
    return listener;
}

static int start_connecting(struct gs_op *op, int fd, const struct sockaddr_in *address)
{
    return gs_op_connect(op, fd, (const struct sockaddr *)address, sizeof *address);
}

TEST(connected_socket_can_send)
{
    struct sockaddr_in address;
    char bytes[8] = "";
    set_up();
    int listener = new_listener(&address, 8), fd = new_socket(AF_INET);
    CHECK_EQ(start_connecting(&connecting, fd, &address), 0);
    CHECK_EQ(done, 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(result, 0);
    CHECK(!gs_op_is_active(&connecting));
    CHECK_EQ(gs_op_send(&connecting, fd, "hello", 5, 0), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result, 5);
    /* The listener may hear of the connection later than the socket that connects. */
    CHECK_EQ(fcntl(listener, F_SETFL, 0), 0);
    int accepted = accept(listener, NULL, NULL);
    CHECK_EQ(recv(accepted, bytes, sizeof bytes, 0), 5);
    CHECK_STR(bytes, "hello");
    gs_loop_free(loop);
    close(accepted);
    close(fd);
    close(listener);
}

TEST(refused_connection_is_a_result)
{
    struct sockaddr_in address;
    set_up();
    int bound = new_bound(&address), fd = new_socket(AF_INET);
    CHECK_EQ(start_connecting(&connecting, fd, &address), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(result, -ECONNREFUSED);
    gs_loop_free(loop);
    close(fd);
    close(bound);
}

TEST(connected_socket_cannot_connect_again)
{
    struct sockaddr_in address;
    set_up();
    int listener = new_listener(&address, 8), fd = new_socket(AF_INET);
    CHECK_EQ(start_connecting(&connecting, fd, &address), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result, 0);
    CHECK_EQ(start_connecting(&connecting, fd, &address), 0);
    CHECK_EQ(start_connecting(&connecting, fd, &address), -EBUSY);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result, -EISCONN);
    CHECK_EQ(start_connecting(&other, -1, &address), -EBADF);
    gs_loop_free(loop);
    close(fd);
    close(listener);
}

/* ---- Connections that are not answered ---- */

#define FILLERS 8

static void on_time(struct gs_timer *timer)
{
    (void)timer;
    gs_op_cancel(&connecting);
}

/* The listener's queue is full, so the kernel drops further requests for connections. */
TEST(timer_ends_a_connect_that_is_not_answered)
{
    struct sockaddr_in address;
    struct gs_timer timer;
    int fillers[FILLERS];
    set_up();
    int listener = new_listener(&address, 0), fd = new_socket(AF_INET);
    for (int i = 0; i < FILLERS; i++) {
        fillers[i] = new_socket(AF_INET);
        (void)!connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    gs_timer_init(&timer, loop, on_time);
    CHECK_EQ(gs_timer_start(&timer, gs_clock_now() + 50 * GS_MILLISECOND), 0);
    CHECK_EQ(start_connecting(&connecting, fd, &address), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(result, -ECANCELED);
    CHECK(!gs_op_is_active(&connecting));
    gs_loop_free(loop);
    for (int i = 0; i < FILLERS; i++)
        close(fillers[i]);
    close(fd);
    close(listener);
}

TEST(connect_that_was_canceled_at_once_ends_once)
{
    struct sockaddr_in address;
    set_up();
    int listener = new_listener(&address, 8), fd = new_socket(AF_INET);
    CHECK_EQ(start_connecting(&connecting, fd, &address), 0);
    gs_op_cancel(&connecting);
    CHECK_EQ(done, 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(result, -ECANCELED);
    gs_loop_free(loop);
    close(fd);
    close(listener);
}

TEST(loop_can_be_freed_while_a_socket_connects)
{
    struct sockaddr_in address;
    set_up();
    int listener = new_listener(&address, 8), fd = new_socket(AF_INET);
    CHECK_EQ(start_connecting(&connecting, fd, &address), 0);
    gs_loop_free(loop);
    CHECK_EQ(done, 0);
    close(fd);
    close(listener);
}

/* ---- Unix sockets ---- */

static struct sockaddr_un unix_address;
static socklen_t unix_length;

/* In the abstract namespace: the name ends with the listener. */
static int new_unix_listener(int backlog)
{
    unix_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(unix_address.sun_path + 1, sizeof unix_address.sun_path - 1,
                     "gossamer-test-%d", getpid());
    unix_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    int listener = new_socket(AF_UNIX);
    CHECK_EQ(bind(listener, (struct sockaddr *)&unix_address, unix_length), 0);
    CHECK_EQ(listen(listener, backlog), 0);
    return listener;
}

TEST(unix_socket_connects)
{
    set_up();
    int listener = new_unix_listener(8), fd = new_socket(AF_UNIX);
    const struct sockaddr *address = (struct sockaddr *)&unix_address;
    CHECK_EQ(gs_op_connect(&connecting, fd, address, unix_length), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result, 0);
    close(listener);
    close(fd);
    fd = new_socket(AF_UNIX);
    CHECK_EQ(gs_op_connect(&connecting, fd, address, unix_length), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result, -ECONNREFUSED);
    gs_loop_free(loop);
    close(fd);
}

/* A queue of one: the second connection finds it full. */
TEST(full_queue_of_a_unix_listener_does_not_keep_the_loop_busy)
{
    set_up();
    int listener = new_unix_listener(0), first = new_socket(AF_UNIX), fd = new_socket(AF_UNIX);
    const struct sockaddr *address = (struct sockaddr *)&unix_address;
    CHECK_EQ(connect(first, address, unix_length), 0);
    CHECK_EQ(gs_op_connect(&connecting, fd, address, unix_length), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(result, -EAGAIN);
    CHECK_EQ(done, 1);
    gs_loop_free(loop);
    close(fd);
    close(first);
    close(listener);
}
