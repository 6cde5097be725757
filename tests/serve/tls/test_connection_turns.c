/* When a connection with TLS may make a step of its handshake. */
#include "serve/connection/blocking.h"
#include "serve/connection/turn.h"
#include "tests/serve/tls/connection.h"

#include <sys/ioctl.h>

/* What is in the future was not long ago; 1 was. */
static bool must_wait(const struct serve_connection *one, uint64_t looked_ns)
{
    return serve_turn_must_wait(one, looked_ns, looked_ns);
}

SMALL_TEST(after_a_step_of_a_handshake_others_must_wait_until_all_else_has_taken_as_long)
{
    const struct serve_connection other = connection;
    CHECK(!must_wait(&other, GS_NEVER));
    shake_hands();
    CHECK(must_wait(&other, GS_NEVER));
    CHECK(!must_wait(&connection, GS_NEVER));
    CHECK(!must_wait(&other, GS_NEVER - 1));
    stop();
    start(100);
    CHECK(!must_wait(&other, 1));
    shake_hands();
    CHECK(!must_wait(&other, 1));
}

SMALL_TEST(the_later_steps_of_a_handshake_wait_only_when_handshakes_have_taken_long)
{
    const struct serve_connection other = connection;
    struct gs_tls_input none = {"", 0};
    CHECK_EQ(gs_tls_engine_read(client, &none, received, sizeof received), -EAGAIN);
    send_output();
    CHECK(receive() > 0);
    CHECK(connection.tls && serve_tls_makes_handshake(&connection));
    CHECK(!must_wait(&connection, GS_NEVER - 1));
    CHECK(!must_wait(&connection, GS_NEVER));
    serve_turn_made_handshake(1);
    CHECK(must_wait(&other, GS_NEVER));
    CHECK(!must_wait(&connection, GS_NEVER));
    serve_turn_made_handshake(SERVE_TURN_HANDSHAKES_NS);
    CHECK(must_wait(&connection, GS_NEVER));
}

static void *run_kernel(void *data)
{
    serve_blocking_run(data);
    return NULL;
}

static void await_received(int fd)
{
    int n = 1;
    while (n)
        CHECK_EQ(ioctl(fd, FIONREAD, &n), 0);
}

/* By a thread of its own. */
TEST(a_handshake_waits_for_its_turn_and_a_request_does_not)
{
    struct gs_tls_input none = {"", 0};
    struct serve_admission admission = {.drain_until_ns = GS_NEVER, .drain_fd = -1};
    struct serve_kernel kernel;
    pthread_t thread;
    char byte;
    start(100);
    struct serve_accepted accepted = {.fd = dup(connection.fd), .is_tls = true};
    CHECK_EQ(serve_table_new(1, false, &admission.table), 0);
    CHECK_EQ(serve_turns_init(&admission.handshakes, 1), 0);
    serve_kernel_init(&kernel, &admission, &shard, &accepted);
    CHECK_EQ(pthread_create(&thread, NULL, run_kernel, &kernel.blocking), 0);

    pthread_mutex_t *turn = serve_turns_take(&admission.handshakes);
    CHECK_EQ(gs_tls_engine_read(client, &none, received, sizeof received), -EAGAIN);
    send_output();
    await_received(accepted.fd);
    CHECK(read(peer, &byte, 1) < 0);
    pthread_mutex_unlock(turn);
    while (gs_tls_engine_write(client, GET_NONE, strlen(GET_NONE)) == -EAGAIN)
        (void)take();
    send_output();
    while (!answers())
        (void)take();

    turn = serve_turns_take(&admission.handshakes);
    ask(GET_NONE);
    while (answers() < 2)
        (void)take();
    pthread_mutex_unlock(turn);
    CHECK_EQ(shutdown(peer, SHUT_WR), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    serve_kernel_done(&kernel);
    serve_table_free(admission.table);
    stop();
}
