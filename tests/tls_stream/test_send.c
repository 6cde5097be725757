/* A client sends while its server has sent only a part of a ticket, so that OpenSSL waits for the
 * rest. */
#include "tests/tls_stream/fixture.h"
#include "tls/engine.h"
#include "tls_stream/stream.h"

/* ---- A server by the engine, at `ours` ---- */

static struct gs_tls_engine *engine;

static void put_output(void)
{
    size_t n;
    const char *bytes = gs_tls_engine_output(engine, &n);
    MUST_EQ(gs_send_all(ours, bytes, n, after(PATIENCE_NS)), n);
    gs_tls_engine_sent(engine, n);
}

/* Returns the result of reading a byte. */
static ssize_t get(char *ret_byte)
{
    static char bytes[10000];
    struct gs_tls_input input = {bytes, 0};
    ssize_t n = gs_recv(ours, bytes, sizeof bytes, 0, after(PATIENCE_NS));
    MUST(n > 0);
    input.n = (size_t)n;
    return gs_tls_engine_read(engine, &input, ret_byte, 1);
}

static void *connect_client(void *unused)
{
    MUST_EQ(connect_as("server.test", NULL), 0);
    return unused;
}

static const char ticket[] = "\4\0\0\x0f\0\0\1\0"
                             "1234\0\0\2ab\0\0";
#define CUT 8 /* where it is cut */

static void put_ticket(size_t from, size_t to, const char *text)
{
    char bytes[100];
    struct gs_tls_keys *keys = &engine->records->sent;
    MUST(gs_tls_seal(keys, SSL3_RT_HANDSHAKE, ticket + from, to - from, (unsigned char *)bytes));
    size_t n = to - from + GS_TLS_SEALED_MORE;
    MUST_EQ(gs_send_all(ours, bytes, n, after(PATIENCE_NS)), n);
    MUST(gs_tls_engine_write(engine, text, strlen(text)) >= 0);
    put_output();
}

static void put_rest(const char *text)
{
    put_ticket(CUT, sizeof ticket - 1, text);
}

/* Returns once the client has received a part of a ticket. */
static void connect_and_cut(void)
{
    struct gs_tls_info info = {.failure = 0};
    char byte;
    connect_both();
    struct gs_thread *thread = spawn(connect_client, NULL);
    MUST_EQ(gs_tls_engine_new(server_context, NULL, &engine), 0);
    while (!info.is_established) {
        MUST_EQ(get(&byte), -EAGAIN);
        put_output();
        gs_tls_engine_info(engine, &info);
    }
    join(thread);
    put_ticket(0, CUT, "");
    while (!SSL_in_init(client->engine->ssl)) {
        MUST_EQ(gs_wait_readable(theirs, after(PATIENCE_NS)), 0);
        MUST_EQ(gs_tls_recv(client, &byte, 1, 0), -ETIMEDOUT);
    }
}

static void close_all(void)
{
    gs_tls_close(client, after(PATIENCE_NS));
    gs_tls_engine_free(engine);
    gs_close(ours);
}

/* ---- The client's threads ---- */

static void *send_x(void *ret_result)
{
    *(ssize_t *)ret_result = gs_tls_send_all(client, "x", 1, after(PATIENCE_NS));
    return NULL;
}

static void *receive_y(void *ret_result)
{
    char byte = 0;
    *(ssize_t *)ret_result = gs_tls_recv(client, &byte, 1, after(PATIENCE_NS));
    MUST(*(ssize_t *)ret_result < 0 || byte == 'y');
    return NULL;
}

static void await_receiver(void)
{
    while (!atomic_load(&client->has_receiver))
        gs_thread_sleep(after(GS_MILLISECOND));
}

/* Until one of the threads waits for the other. */
static void await_waiter(void)
{
    bool waits = false;
    while (!waits) {
        gs_thread_sleep(after(GS_MILLISECOND));
        gs_mutex_lock(&client->mutex, GS_NEVER);
        waits = client->progress.waiting.first;
        gs_mutex_unlock(&client->mutex);
    }
}

static void server_gets_x(void)
{
    char byte = 0;
    MUST_EQ(get(&byte), 1);
    MUST_EQ(byte, 'x');
}

/* A receiver waits for the server, and a sender for the receiver. */
static void start_both(struct gs_thread **ret_receiver, ssize_t *ret_received,
                       struct gs_thread **ret_sender, ssize_t *ret_sent)
{
    connect_and_cut();
    *ret_receiver = spawn(receive_y, ret_received);
    await_receiver();
    *ret_sender = spawn(send_x, ret_sent);
    await_waiter();
}

/* ---- The rest arrives ---- */

static void *send_alone(void *unused)
{
    ssize_t sent;
    connect_and_cut();
    struct gs_thread *sender = spawn(send_x, &sent);
    await_receiver();
    put_rest("later");
    join(sender);
    MUST_EQ(sent, 1);
    server_gets_x();
    hear(client, "later");
    close_all();
    return unused;
}

TEST(a_sender_without_a_receiver_receives_the_rest_itself)
{
    run_tls(send_alone);
}

static void *send_beside_receiver(void *unused)
{
    ssize_t sent, received;
    struct gs_thread *receiver, *sender;
    start_both(&receiver, &received, &sender, &sent);
    put_rest("");
    join(sender);
    MUST_EQ(sent, 1);
    server_gets_x();
    MUST(atomic_load(&client->has_receiver));
    MUST_EQ(gs_tls_engine_write(engine, "y", 1), 1);
    put_output();
    join(receiver);
    MUST_EQ(received, 1);
    close_all();
    return unused;
}

TEST(a_receiver_that_gets_the_rest_wakes_the_sender)
{
    run_tls(send_beside_receiver);
}

static void *receiver_gives_up(void *unused)
{
    ssize_t sent, received;
    struct gs_thread *receiver, *sender;
    start_both(&receiver, &received, &sender, &sent);
    gs_thread_cancel(receiver);
    join(receiver);
    MUST_EQ(received, -ECANCELED);
    await_receiver();
    put_rest("");
    join(sender);
    MUST_EQ(sent, 1);
    server_gets_x();
    close_all();
    return unused;
}

TEST(a_sender_receives_once_the_receiver_has_given_up)
{
    run_tls(receiver_gives_up);
}

static void *receiver_comes_later(void *unused)
{
    ssize_t sent, received[3];
    connect_and_cut();
    struct gs_thread *sender = spawn(send_x, &sent);
    await_receiver();
    for (int i = 0; i < 2; i++) {
        struct gs_thread *receiver = spawn(receive_y, &received[i]);
        await_waiter();
        gs_thread_cancel(receiver);
        join(receiver);
        MUST_EQ(received[i], -ECANCELED);
    }
    MUST_EQ(gs_tls_recv(client, &(char){0}, 1, after(GS_MILLISECOND)), -ETIMEDOUT);
    struct gs_thread *receiver = spawn(receive_y, &received[2]);
    await_waiter();
    put_rest("y");
    join(sender);
    join(receiver);
    MUST_EQ(sent, 1);
    MUST_EQ(received[2], 1);
    server_gets_x();
    close_all();
    return unused;
}

TEST(a_receiver_waits_while_the_sender_receives)
{
    run_tls(receiver_comes_later);
}

/* ---- The sender gives up ---- */

static void *give_up(void *has_receiver)
{
    ssize_t sent, received;
    struct gs_thread *receiver = NULL;
    for (int is_canceled = 0; is_canceled < 2; is_canceled++) {
        connect_and_cut();
        if (has_receiver) {
            receiver = spawn(receive_y, &received);
            await_receiver();
        }
        if (is_canceled) {
            struct gs_thread *sender = spawn(send_x, &sent);
            (has_receiver ? await_waiter : await_receiver)();
            gs_thread_cancel(sender);
            join(sender);
        } else {
            sent = gs_tls_send_all(client, "x", 1, after(2 * GS_MILLISECOND));
        }
        MUST_EQ(sent, is_canceled ? -ECANCELED : -ETIMEDOUT);
        put_rest("y");
        if (!receiver)
            receiver = spawn(receive_y, &received);
        join(receiver);
        receiver = NULL;
        MUST_EQ(received, 1);
        MUST_EQ(gs_tls_send_all(client, "x", 1, GS_NEVER), sent);
        close_all();
    }
    return NULL;
}

static void *give_up_both(void *unused)
{
    give_up(NULL);
    give_up(&unused);
    return unused;
}

TEST(a_sender_that_waits_for_the_rest_has_a_deadline_and_can_be_canceled)
{
    run_tls(give_up_both);
}

static void *meet_the_end(void *unused)
{
    ssize_t sent;
    connect_and_cut();
    struct gs_thread *sender = spawn(send_x, &sent);
    await_receiver();
    MUST_EQ(shutdown(ours, SHUT_RDWR), 0);
    join(sender);
    MUST_EQ(sent, -EPIPE);
    MUST_EQ(gs_tls_recv(client, &(char){0}, 1, after(PATIENCE_NS)), -ECONNRESET);
    close_all();
    return unused;
}

TEST(a_sender_whose_peer_has_gone_fails)
{
    run_tls(meet_the_end);
}
