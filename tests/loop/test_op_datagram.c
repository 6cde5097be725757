/* Sending datagrams when the receiver's queue is full. */
#include "tests/loop/fixture.h"

static struct gs_loop *loop;
static struct gs_op sending;
static int64_t result;
static int done, sender, receiver, queued;

static void on_sent(struct gs_op *op, int64_t sent)
{
    (void)op;
    result = sent;
    done++;
}

/* A sender that is connected to a receiver, whose queue is filled. The address is in the abstract
 * namespace. */
static void set_up(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n =
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "gossamer-test-%d", getpid());
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(receiver, (struct sockaddr *)&address, length), 0);
    CHECK_EQ(connect(sender, (struct sockaddr *)&address, length), 0);
    for (queued = 0; send(sender, "filler", 6, MSG_DONTWAIT) == 6; queued++)
        ;
    loop = new_loop();
    gs_op_init(&sending, loop, on_sent);
    result = 1;
    done = 0;
}

static void drop_fillers(void)
{
    char bytes[16];
    while (queued--)
        CHECK_EQ(recv(receiver, bytes, sizeof bytes, MSG_DONTWAIT), 6);
}

static void must_wait(void)
{
    for (int i = 0; i < 4; i++)
        step(loop);
    CHECK_EQ(done, 0);
}

static void must_arrive(void)
{
    char bytes[16] = "";
    must_wait();
    drop_fillers();
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(result, 5);
    CHECK_EQ(recv(receiver, bytes, sizeof bytes, MSG_DONTWAIT), 5);
    CHECK_STR(bytes, "hello");
    CHECK_EQ(recv(receiver, bytes, sizeof bytes, MSG_DONTWAIT), -1);
}

static void tear_down(void)
{
    gs_loop_free(loop);
    close(sender);
    close(receiver);
}

TEST(datagram_that_has_to_wait_is_sent_whole)
{
    set_up();
    CHECK_EQ(gs_op_send(&sending, sender, "hello", 5, 0), 0);
    must_arrive();
    tear_down();
}

TEST(message_that_has_to_wait_is_sent_whole)
{
    char text[] = "hello";
    struct iovec part = {.iov_base = text, .iov_len = 5};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    set_up();
    CHECK_EQ(gs_op_sendmsg(&sending, sender, &message, 0), 0);
    must_arrive();
    tear_down();
}

TEST(datagram_that_waits_can_be_canceled_and_sent_again)
{
    set_up();
    for (int steps = 0; steps < 4; steps++) {
        done = 0;
        CHECK_EQ(gs_op_send(&sending, sender, "late", 4, 0), 0);
        for (int i = 0; i < steps; i++)
            step(loop);
        gs_op_cancel(&sending);
        CHECK_EQ(gs_loop_run(loop), 0);
        CHECK_EQ(done, 1);
        CHECK_EQ(result, -ECANCELED);
    }
    done = 0;
    CHECK_EQ(gs_op_send(&sending, sender, "hello", 5, 0), 0);
    must_arrive();
    tear_down();
}

TEST(datagram_that_waits_ends_with_the_loop_or_the_receiver)
{
    set_up();
    CHECK_EQ(gs_op_send(&sending, sender, "hello", 5, 0), 0);
    must_wait();
    close(receiver);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(done, 1);
    CHECK_EQ(result, -ECONNREFUSED);
    tear_down();
    set_up();
    CHECK_EQ(gs_op_send(&sending, sender, "hello", 5, 0), 0);
    must_wait();
    tear_down();
    CHECK_EQ(done, 0);
}
