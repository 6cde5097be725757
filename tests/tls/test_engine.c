/* Handshakes and data, between two engines. */
#include "tests/test.h"
#include "tests/tls/certificates.h"
#include "tests/tls/pair.h"
#include "tls/engine.h"

#include <errno.h>

static const size_t steps[] = {1, 7, 100, 100000};
#define STEPS (sizeof steps / sizeof *steps)

static size_t output_of(const struct gs_tls_engine *engine)
{
    size_t n;
    gs_tls_engine_output(engine, &n);
    return n;
}

/* ---- Data ---- */

static void check_data(struct pair *pair)
{
    static const size_t sizes[] = {1, 305, 16383, 16384, 16385, 70000};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK(pair_talk(pair->client, pair->server, sizes[i], pair->step));
        CHECK(pair_talk(pair->server, pair->client, sizes[i], pair->step));
    }
}

static void check_both_versions(void (*check)(struct pair *pair, const char *version))
{
    for (unsigned i = 0; i < 2 * STEPS; i++) {
        struct pair pair;
        pair_init(&pair, NULL, NULL);
        if (i % 2)
            pair_speak_1_2(&pair);
        pair.step = steps[i / 2];
        check(&pair, i % 2 ? "TLSv1.2" : "TLSv1.3");
        pair_done(&pair);
    }
}

static void check_conversation(struct pair *pair, const char *version)
{
    struct gs_tls_info info;
    CHECK_EQ(gs_tls_engine_write(pair->client, "early", 5), -EAGAIN);
    CHECK_EQ(pair_exchange(pair), 0);
    gs_tls_engine_info(pair->client, &info);
    CHECK_EQ(gs_tls_engine_write(pair->client, "", 0), 0);
    check_data(pair);
    CHECK_EQ(gs_tls_engine_write(pair->client, "", 0), 0);
    CHECK_STR(info.server_name, "server.test");
    gs_tls_engine_info(pair->server, &info);
    CHECK(info.is_established && !info.is_resumed && !info.protocol);
    CHECK_STR(info.version, version);
    CHECK_STR(info.server_name, "server.test");
    gs_tls_engine_info(pair->client, &info);
    CHECK(info.is_established && !info.is_resumed && info.failure == GS_TLS_NO_FAILURE);
    CHECK_STR(info.version, version);
}

TEST(data_is_the_same_whatever_the_size_of_the_pieces)
{
    check_both_versions(check_conversation);
}

static void check_close(struct pair *pair, const char *version)
{
    char plain[10], text[GS_TLS_TEXT];
    (void)version;
    CHECK_EQ(pair_exchange(pair), 0);
    gs_tls_engine_close(pair->server);
    gs_tls_engine_close(pair->server);
    CHECK_EQ(gs_tls_engine_write(pair->server, "more", 4), -EPIPE);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pair_pass(pair->server, pair->client, pair->step, plain, sizeof plain), 0);
    CHECK(pair_talk(pair->client, pair->server, 100000, pair->step));
    gs_tls_engine_close(pair->client);
    CHECK_EQ(pair_pass(pair->client, pair->server, pair->step, plain, sizeof plain), 0);
    gs_tls_engine_error(pair->client, text);
    CHECK_STR(text, "");
}

TEST(name_that_a_client_asks_for_is_safe_to_print)
{
    struct pair pair;
    struct gs_tls_info info;
    pair_init(&pair, NULL, NULL);
    pair_renew(&pair, "\33[31m\r\n\xff.test");
    CHECK_EQ(pair_exchange(&pair), 0);
    gs_tls_engine_info(pair.server, &info);
    CHECK_STR(info.server_name, "?[31m???.test");
    pair_done(&pair);
}

TEST(each_side_is_closed_by_itself)
{
    check_both_versions(check_close);
}

TEST(idle_engine_has_no_buffers_and_no_object_of_openssl)
{
    struct pair pair;
    pair_init(&pair, NULL, NULL);
    CHECK_EQ(pair_exchange(&pair), 0);
    CHECK(!pair.server->ssl && pair.client->ssl);
    CHECK(pair_talk(pair.client, pair.server, 1000, 50));
    CHECK(pair_talk(pair.server, pair.client, 1000, 50));
    CHECK(!pair.client->ssl);
    for (int i = 0; i < 2; i++) {
        const struct gs_tls_engine *engine = i ? pair.client : pair.server;
        CHECK(!engine->output && !engine->records->partial && !engine->records->rest);
    }
    pair_done(&pair);
}

TEST(records_are_left_to_openssl_if_the_environment_says_so)
{
    struct pair pair;
    setenv("GOSSAMER_TLS_RECORDS", "openssl", 1);
    pair_init(&pair, NULL, NULL);
    unsetenv("GOSSAMER_TLS_RECORDS");
    CHECK_EQ(pair_exchange(&pair), 0);
    CHECK(pair_talk(pair.client, pair.server, 1000, 50));
    CHECK(pair_talk(pair.server, pair.client, 1000, 50));
    CHECK(pair.server->ssl && pair.client->ssl);
    pair_done(&pair);
}

TEST(output_that_is_sent_in_parts_stays_in_order)
{
    struct pair pair;
    char plain[100];
    pair_init(&pair, NULL, NULL);
    CHECK_EQ(pair_exchange(&pair), 0);
    for (int i = 0; i < 500; i++) {
        CHECK_EQ(gs_tls_engine_write(pair.server, &(char){(char)i}, 1), 1);
        struct gs_tls_input input = {gs_tls_engine_output(pair.server, &(size_t){0}), 13};
        ssize_t n = gs_tls_engine_read(pair.client, &input, plain, sizeof plain);
        CHECK(n == -EAGAIN || n == 1);
        gs_tls_engine_sent(pair.server, 13 - input.n);
    }
    CHECK(pair.server->output_size < 30000);
    pair_done(&pair);
}

/* ---- ALPN ---- */

TEST(protocol_is_the_first_of_the_servers_that_the_client_has)
{
    static const char *const server[] = {"h2", "http/1.1"};
    static const struct {
        const char *client[2];
        const char *chosen;
        int err;
    } cases[] = {
        {{"http/1.1", "h2"}, "h2", 0},
        {{"x", "http/1.1"}, "http/1.1", 0},
        {{"http/1.0", "h3"}, NULL, -EPROTO},
    };
    for (unsigned i = 0; i < 3; i++) {
        struct pair pair;
        struct gs_tls_info info;
        char text[GS_TLS_TEXT];
        const struct gs_tls_options of_server = {.protocols = server, .protocol_count = 2};
        const struct gs_tls_options of_client = {
            .verify = GS_TLS_VERIFY_NONE, .protocols = cases[i].client, .protocol_count = 2};
        pair_init(&pair, &of_server, &of_client);
        CHECK_EQ(pair_exchange(&pair), cases[i].err);
        gs_tls_engine_info(pair.server, &info);
        if (cases[i].chosen) {
            CHECK_STR(info.protocol, cases[i].chosen);
            gs_tls_engine_info(pair.client, &info);
            CHECK_STR(info.protocol, cases[i].chosen);
        } else {
            CHECK(info.failure == GS_TLS_FAILED_VERSION && !info.protocol);
            gs_tls_engine_error(pair.server, text);
            CHECK(strstr(text, "ALPN"));
        }
        pair_done(&pair);
    }
}

/* ---- Failures ---- */

static void check_failure(struct gs_tls_engine *engine, enum gs_tls_failure failure,
                          const char *part)
{
    struct gs_tls_info info;
    char text[GS_TLS_TEXT], plain[10];
    struct gs_tls_input none = {"", 0};
    gs_tls_engine_info(engine, &info);
    gs_tls_engine_error(engine, text);
    if (info.failure != failure || !strstr(text, part))
        TEST_FAIL("failure %d, \"%s\", and not %d, \"%s\"", info.failure, text, failure, part);
    CHECK_EQ(gs_tls_engine_read(engine, &none, plain, sizeof plain), -EPROTO);
    CHECK_EQ(gs_tls_engine_write(engine, "x", 1), -EPROTO);
    size_t n = output_of(engine);
    gs_tls_engine_close(engine);
    CHECK_EQ(output_of(engine), n);
}

static const char client_hello_1_0[] = "\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x01"
                                       "01234567890123456789012345678901\x00\x00\x02\x00\x2f\x01";

TEST(bytes_that_are_not_of_a_client_end_the_connection)
{
    static const struct {
        const char *bytes;
        size_t n;
        enum gs_tls_failure failure;
        const char *text;
    } cases[] = {
        {"GET / HTTP/1.1\r\n", 16, GS_TLS_FAILED_HTTP, "https://"},
        {"POST / HTTP/1.1\r\n", 17, GS_TLS_FAILED_HTTP, "https://"},
        {"CONNECT a:1 HTTP/1.1\r\n", 22, GS_TLS_FAILED_HTTP, "proxy"},
        {"SSH-2.0-OpenSSH_9.2\r\n", 21, GS_TLS_FAILED_PROTOCOL, "does not speak TLS"},
        {client_hello_1_0, 50, GS_TLS_FAILED_VERSION, "versions"},
        {"\x16\x03\x03\xff\xff\x01\x00", 7, GS_TLS_FAILED_PROTOCOL, "not as TLS demands"},
        {"\x17\x03\x03\x00\x20                                ", 37, GS_TLS_FAILED_PROTOCOL, ""},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair pair;
        char plain[10];
        struct gs_tls_input input = {cases[i].bytes, cases[i].n};
        pair_init(&pair, NULL, NULL);
        CHECK_EQ(gs_tls_engine_read(pair.server, &input, plain, sizeof plain), -EPROTO);
        check_failure(pair.server, cases[i].failure, cases[i].text);
        CHECK(output_of(pair.server) < 100);
        CHECK(cases[i].failure != GS_TLS_FAILED_HTTP || !output_of(pair.server));
        pair_done(&pair);
    }
}

TEST(bytes_that_are_not_of_a_server_end_the_connection)
{
    static const struct {
        const char *bytes;
        size_t n;
        enum gs_tls_failure failure;
        const char *text;
    } cases[] = {
        {"HTTP/1.1 400 Bad Request\r\n", 26, GS_TLS_FAILED_HTTP, "use http://"},
        {"220 mail.test ESMTP\r\n", 21, GS_TLS_FAILED_PROTOCOL, "does not speak TLS"},
        {"\x15\x03\x03\x00\x02\x02\x30", 7, GS_TLS_FAILED_ALERT, "does not trust"},
        {"\x15\x03\x03\x00\x02\x02\x28", 7, GS_TLS_FAILED_ALERT, "(alert: handshake failure)"},
        {"\x15\x03\x03\x00\x02\x02\x46", 7, GS_TLS_FAILED_VERSION, "protocol version"},
        {"\x15\x03\x03\x00\x02\x02\x74", 7, GS_TLS_FAILED_ALERT, "requires a certificate"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair pair;
        char plain[10];
        struct gs_tls_input input = {cases[i].bytes, cases[i].n};
        pair_init(&pair, NULL, NULL);
        CHECK_EQ(gs_tls_engine_read(pair.client, &input, plain, sizeof plain), -EPROTO);
        check_failure(pair.client, cases[i].failure, cases[i].text);
        pair_done(&pair);
    }
}

TEST(modern_server_refuses_tls_1_2_and_both_sides_say_so)
{
    struct pair pair;
    const struct gs_tls_options modern = {.is_modern = true};
    pair_init(&pair, &modern, NULL);
    pair_speak_1_2(&pair);
    CHECK_EQ(pair_exchange(&pair), -EPROTO);
    check_failure(pair.server, GS_TLS_FAILED_VERSION, "versions");
    CHECK_EQ(pair_exchange(&pair), -EPROTO);
    char plain[10];
    CHECK_EQ(pair_pass(pair.server, pair.client, 100, plain, sizeof plain), -EPROTO);
    check_failure(pair.client, GS_TLS_FAILED_VERSION, "protocol version");
    pair_done(&pair);
}

TEST(handshake_with_any_byte_changed_never_succeeds_with_other_data)
{
    struct pair pair;
    char first[2000], plain[10];
    pair_init(&pair, NULL, NULL);
    size_t n;
    CHECK_EQ(pair_pass(pair.server, pair.client, 100, plain, sizeof plain), -EAGAIN);
    const char *hello = gs_tls_engine_output(pair.client, &n);
    CHECK(n < sizeof first);
    memcpy(first, hello, n);
    for (size_t i = 0; i < n; i++) {
        struct gs_tls_engine *server;
        CHECK_EQ(gs_tls_engine_new(pair.server_context, NULL, &server), 0);
        first[i] ^= 0x55;
        struct gs_tls_input input = {first, n};
        ssize_t result = gs_tls_engine_read(server, &input, plain, sizeof plain);
        CHECK(result == -EAGAIN || result == -EPROTO);
        CHECK(output_of(server) < 4000);
        first[i] ^= 0x55;
        gs_tls_engine_free(server);
    }
    pair_done(&pair);
}

/* ---- Sessions ---- */

TEST(session_of_a_client_is_resumed_even_if_nothing_was_closed)
{
    for (int i = 0; i < 4; i++) {
        struct pair pair;
        struct gs_tls_info info;
        pair_init(&pair, NULL, NULL);
        if (i % 2)
            pair_speak_1_2(&pair);
        CHECK(!gs_tls_engine_session(pair.client));
        CHECK_EQ(pair_exchange(&pair), 0);
        if (i / 2) {
            CHECK(pair_talk(pair.server, pair.client, 10, 100));
        }
        struct gs_tls_session *session = gs_tls_engine_session(pair.client);
        CHECK(session && !gs_tls_engine_session(pair.server));
        CHECK_EQ(gs_tls_engine_resume(pair.client, session), -EINVAL);
        CHECK_EQ(gs_tls_engine_resume(pair.server, session), -EINVAL);
        for (int again = 0; again < 2; again++) {
            pair_renew(&pair, "server.test");
            CHECK_EQ(gs_tls_engine_resume(pair.client, session), 0);
            CHECK_EQ(pair_exchange(&pair), 0);
            gs_tls_engine_info(pair.client, &info);
            CHECK(info.is_resumed);
            gs_tls_engine_info(pair.server, &info);
            CHECK(info.is_resumed);
            CHECK(info.server_name && !strcmp(info.server_name, "server.test"));
            CHECK(pair_talk(pair.client, pair.server, 1000, 100));
            CHECK(pair_talk(pair.server, pair.client, 1000, 100));
        }
        gs_tls_session_free(session);
        pair_done(&pair);
    }
}
