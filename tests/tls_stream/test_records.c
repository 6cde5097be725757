/* What only a peer with an engine of its own can do: records in parts, several at once, and
 * messages that have to be answered. */
#include "tests/tls_stream/fixture.h"
#include "tls_stream/stream.h"

#include <openssl/ssl.h>

/* ---- A peer by the engine ---- */

static struct gs_tls_engine *engine;

/* Send n bytes of the engine's output. */
static void put(size_t n)
{
    size_t left;
    const char *bytes = gs_tls_engine_output(engine, &left);
    MUST(n <= left);
    MUST_EQ(gs_send_all(theirs, bytes, n, after(PATIENCE_NS)), n);
    gs_tls_engine_sent(engine, n);
}

static size_t output_length(void)
{
    size_t n;
    gs_tls_engine_output(engine, &n);
    return n;
}

/* Make the handshake, but do not send its end. */
static void shake_hands(void)
{
    char bytes[10000], plain[10];
    struct gs_tls_info info = {.failure = 0};
    struct gs_tls_input input = {bytes, 0};
    MUST_EQ(gs_tls_engine_new(client_context, "server.test", &engine), 0);
    for (;;) {
        MUST_EQ(gs_tls_engine_read(engine, &input, plain, sizeof plain), -EAGAIN);
        gs_tls_engine_info(engine, &info);
        if (info.is_established)
            return;
        put(output_length());
        ssize_t n = gs_recv(theirs, bytes, sizeof bytes, 0, after(PATIENCE_NS));
        MUST(n > 0);
        input = (struct gs_tls_input){bytes, (size_t)n};
    }
}

static void *send_all_at_once(void *unused)
{
    char byte;
    connect_both();
    struct gs_thread *thread = spawn(accept_tls, NULL);
    shake_hands();
    MUST_EQ(gs_tls_engine_write(engine, "hello", 5), 5);
    MUST_EQ(gs_tls_engine_write(engine, " and good-bye", 13), 13);
    gs_tls_engine_close(engine);
    put(output_length());
    join(thread);
    MUST_EQ(gs_tls_recv(server, &byte, 1, after(PATIENCE_NS)), 1);
    MUST_EQ(byte, 'h');
    hear(server, "ello and good-bye");
    MUST_EQ(gs_tls_recv(server, &byte, 1, after(PATIENCE_NS)), 0);
    gs_tls_engine_free(engine);
    gs_tls_close(server, after(PATIENCE_NS));
    gs_sys_close(theirs);
    return unused;
}

TEST(data_that_comes_with_the_end_of_the_handshake_is_received)
{
    run_tls(send_all_at_once);
}

static void *send_in_parts(void *unused)
{
    char bytes[10];
    connect_both();
    struct gs_thread *thread = spawn(accept_tls, NULL);
    shake_hands();
    put(output_length());
    join(thread);
    MUST_EQ(gs_tls_engine_write(engine, "hello", 5), 5);
    for (size_t n = output_length(); n > 1; n--) {
        put(1);
        MUST_EQ(gs_tls_recv(server, bytes, sizeof bytes, n % 2 ? 0 : after(1)), -ETIMEDOUT);
    }
    put(1);
    MUST_EQ(gs_tls_recv(server, bytes, sizeof bytes, after(PATIENCE_NS)), 5);
    gs_tls_engine_free(engine);
    gs_tls_close(server, after(PATIENCE_NS));
    gs_sys_close(theirs);
    return unused;
}

TEST(a_record_in_parts_is_received_when_it_is_complete)
{
    run_tls(send_in_parts);
}

/* ---- A peer by OpenSSL, in a kernel thread ---- */

static SSL *connect_openssl(SSL_CTX *context)
{
    SSL *ssl = SSL_new(context);
    MUST(ssl && SSL_set_fd(ssl, theirs) && SSL_connect(ssl) == 1);
    return ssl;
}

/* And send a byte, since an engine takes no long series of messages without data. */
static bool ask_for_key(SSL *ssl)
{
    return SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) && SSL_do_handshake(ssl) == 1 &&
           SSL_write(ssl, ".", 1) == 1;
}

#define UPDATES 500

static char megabyte[1 << 20];

/* The server has more to send than the socket takes. */
static void update_keys(void *context)
{
    static char bytes[sizeof megabyte];
    size_t n = 0;
    SSL *ssl = connect_openssl(context);
    for (int i = 0; i < UPDATES; i++)
        MUST(ask_for_key(ssl));
    while (n < sizeof bytes) {
        int some = SSL_read(ssl, bytes + n, (int)(sizeof bytes - n));
        MUST(some > 0);
        n += (size_t)some;
    }
    MUST(!memcmp(bytes, megabyte, sizeof bytes));
    MUST_EQ(SSL_read(ssl, bytes, 1), 0);
    SSL_free(ssl);
}

static void *run_peer(void *peer)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    MUST(context);
    MUST_EQ(gs_run_blocking(*(void (**)(void *))peer, context, GS_NEVER), 0);
    SSL_CTX_free(context);
    return NULL;
}

static struct gs_thread *start_peer(void (**peer)(void *))
{
    connect_with_small_buffers();
    struct gs_thread *thread = spawn(run_peer, peer);
    accept_tls(NULL);
    return thread;
}

static void hear_updates(void)
{
    char byte;
    for (int i = 0; i < UPDATES; i++)
        MUST_EQ(gs_tls_recv(server, &byte, 1, after(PATIENCE_NS)), 1);
}

static void *send_megabyte(void *unused)
{
    MUST_EQ(gs_tls_send_all(server, megabyte, sizeof megabyte, after(PATIENCE_NS)),
            sizeof megabyte);
    return unused;
}

static void *answer_while_sending(void *unused)
{
    static void (*peer)(void *) = update_keys;
    struct gs_thread *threads[2] = {start_peer(&peer), spawn(send_megabyte, NULL)};
    hear_updates();
    join(threads[1]);
    MUST_EQ(gs_tls_close(server, after(PATIENCE_NS)), 0);
    join(threads[0]);
    gs_sys_close(theirs);
    return unused;
}

TEST(answers_stand_between_the_records_of_a_sender_that_waits)
{
    for (size_t i = 0; i < sizeof megabyte; i++)
        megabyte[i] = (char)(i + i / 1000);
    run_tls(answer_while_sending);
}

/* ---- Answers that the peer does not read ---- */

#define REQUESTS 10000

static struct certificate_files server_files;

/* The client refuses each new handshake with an alert. Data comes between, so it takes as many as
 * there are. */
static void ask_for_handshakes(void *context)
{
    MUST(SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION));
    MUST(SSL_CTX_use_certificate_chain_file(context, server_files.chain) == 1);
    MUST(SSL_CTX_use_PrivateKey_file(context, server_files.key, SSL_FILETYPE_PEM) == 1);
    SSL *ssl = SSL_new(context);
    MUST(ssl && SSL_set_fd(ssl, theirs) && SSL_accept(ssl) == 1);
    for (int i = 0; i < REQUESTS; i++)
        MUST(SSL_renegotiate(ssl) && SSL_do_handshake(ssl) == 1 && SSL_write(ssl, ".", 1) == 1);
    SSL_free(ssl);
}

static void *discard_answers(void *unused)
{
    static char bytes[10000];
    while (gs_recv(theirs, bytes, sizeof bytes, 0, after(PATIENCE_NS)) > 0)
        ;
    return unused;
}

/* Returns how many bytes the client receives until it stops. */
static int receive_until_full(void)
{
    ssize_t n = 0;
    int received = 0;
    char byte;
    while (n > 0 || client->unsent <= GS_TLS_UNSENT_MAX) {
        n = gs_tls_recv(client, &byte, 1, after(GS_MILLISECOND));
        MUST(n > 0 || n == -ETIMEDOUT);
        received += n > 0;
    }
    return received;
}

static void *receive_without_end(void *unused)
{
    static void (*peer)(void *) = ask_for_handshakes;
    char byte;
    connect_with_small_buffers();
    struct gs_thread *threads[2] = {spawn(run_peer, &peer)};
    uint64_t deadline_ns = after(PATIENCE_NS);
    MUST_EQ(gs_tls_connect(client_context, ours, "server.test", deadline_ns, &client, NULL), 0);
    int received = receive_until_full();
    MUST(received < REQUESTS && client->unsent / 2 < GS_TLS_UNSENT_MAX);
    MUST_EQ(gs_wait_readable(ours, after(PATIENCE_NS)), 0);
    MUST_EQ(gs_tls_recv(client, &byte, 1, after(GS_MILLISECOND)), -ETIMEDOUT);
    threads[1] = spawn(discard_answers, NULL);
    for (; received < REQUESTS; received++)
        MUST_EQ(gs_tls_recv(client, &byte, 1, after(PATIENCE_NS)), 1);
    join(threads[0]);
    gs_tls_abort(client);
    join(threads[1]);
    gs_sys_close(theirs);
    return unused;
}

TEST(a_receiver_stops_while_the_peer_does_not_read_its_answers)
{
    const struct gs_tls_options options = {.is_client = true, .verify = GS_TLS_VERIFY_NONE};
    certificate_make("server.test", &server_files);
    CHECK_EQ(gs_tls_context_new(&options, &client_context, NULL), 0);
    run_both(receive_without_end);
    gs_tls_context_release(client_context);
}
