/* Two engines, one of a server and one of a client, which pass their output to each other. */
#include "tests/test.h"
#include "tests/tls/certificates.h"

#include <errno.h>
#include <gossamer/tls_engine.h>

struct pair {
    struct gs_tls_context *contexts[2];
    struct gs_tls_engine *server, *client;
};

static void pair_init(struct pair *pair)
{
    struct certificate_files files;
    certificate_make("server.test", &files);
    const struct gs_tls_certificate certificate = {.chain = files.chain, .key = files.key};
    const struct gs_tls_options server = {.certificates = &certificate, .certificate_count = 1};
    const struct gs_tls_options client = {.is_client = true, .verify = GS_TLS_VERIFY_NONE};
    char text[GS_TLS_TEXT] = "";
    CHECK_EQ(gs_tls_context_new(&server, &pair->contexts[0], text), 0);
    CHECK_EQ(gs_tls_context_new(&client, &pair->contexts[1], text), 0);
    CHECK_EQ(gs_tls_engine_new(pair->contexts[0], NULL, &pair->server), 0);
    CHECK_EQ(gs_tls_engine_new(pair->contexts[1], "server.test", &pair->client), 0);
}

static void pair_done(struct pair *pair)
{
    gs_tls_engine_free(pair->server);
    gs_tls_engine_free(pair->client);
    gs_tls_context_release(pair->contexts[0]);
    gs_tls_context_release(pair->contexts[1]);
}

/* Pass on the output of one side, `step` bytes at a time. Returns the last result of reading. */
static ssize_t pass(struct gs_tls_engine *from, struct gs_tls_engine *to, size_t step, char *plain)
{
    struct gs_tls_input input = {"", 0};
    ssize_t n = gs_tls_engine_read(to, &input, plain, 100);
    size_t size;
    while ((input.bytes = gs_tls_engine_output(from, &size), size)) {
        size_t taken = input.n = size < step ? size : step;
        n = gs_tls_engine_read(to, &input, plain, 100);
        gs_tls_engine_sent(from, taken - input.n);
        if (n != -EAGAIN)
            break;
    }
    return n;
}

TEST(handshake_completes_whatever_the_size_of_the_pieces)
{
    static const size_t steps[] = {1, 7, 100, 100000};
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct pair pair;
        char plain[100];
        struct gs_tls_info info;
        pair_init(&pair);
        CHECK_EQ(pass(pair.server, pair.client, steps[i], plain), -EAGAIN);
        CHECK_EQ(pass(pair.client, pair.server, steps[i], plain), -EAGAIN);
        CHECK_EQ(pass(pair.server, pair.client, steps[i], plain), -EAGAIN);
        CHECK_EQ(gs_tls_engine_write(pair.client, "question", 8), 8);
        CHECK_EQ(pass(pair.client, pair.server, steps[i], plain), 8);
        CHECK(!memcmp(plain, "question", 8));
        gs_tls_engine_info(pair.server, &info);
        CHECK(info.is_established && !strcmp(info.version, "TLSv1.3"));
        CHECK(!strcmp(info.server_name, "server.test"));
        CHECK_EQ(gs_tls_engine_write(pair.server, "answer", 6), 6);
        CHECK_EQ(pass(pair.server, pair.client, steps[i], plain), 6);
        gs_tls_engine_close(pair.server);
        CHECK_EQ(pass(pair.server, pair.client, steps[i], plain), 0);
        pair_done(&pair);
    }
}

TEST(session_of_a_client_is_resumed)
{
    struct pair pair;
    char plain[100];
    struct gs_tls_info info;
    pair_init(&pair);
    CHECK(!gs_tls_engine_session(pair.client));
    CHECK_EQ(pass(pair.server, pair.client, 100, plain), -EAGAIN);
    CHECK_EQ(pass(pair.client, pair.server, 100, plain), -EAGAIN);
    CHECK_EQ(pass(pair.server, pair.client, 100, plain), -EAGAIN);
    CHECK_EQ(pass(pair.client, pair.server, 100, plain), -EAGAIN);
    CHECK_EQ(pass(pair.server, pair.client, 100, plain), -EAGAIN);
    struct gs_tls_session *session = gs_tls_engine_session(pair.client);
    CHECK(session && !gs_tls_engine_session(pair.server));
    CHECK_EQ(gs_tls_engine_resume(pair.client, session), -EINVAL);

    struct gs_tls_engine *first[] = {pair.server, pair.client};
    gs_tls_engine_free(first[0]);
    gs_tls_engine_free(first[1]);
    CHECK_EQ(gs_tls_engine_new(pair.contexts[0], NULL, &pair.server), 0);
    CHECK_EQ(gs_tls_engine_new(pair.contexts[1], "server.test", &pair.client), 0);
    CHECK_EQ(gs_tls_engine_resume(pair.client, session), 0);
    CHECK_EQ(pass(pair.server, pair.client, 100, plain), -EAGAIN);
    CHECK_EQ(pass(pair.client, pair.server, 100, plain), -EAGAIN);
    CHECK_EQ(pass(pair.server, pair.client, 100, plain), -EAGAIN);
    gs_tls_engine_info(pair.client, &info);
    CHECK(info.is_established && info.is_resumed);
    gs_tls_session_free(session);
    pair_done(&pair);
}
