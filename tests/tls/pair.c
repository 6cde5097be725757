#include "tests/tls/pair.h"

#include "tests/tls/certificates.h"
#include "tls/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int err, const char *text)
{
    if (!err)
        return;
    fprintf(stderr, "pair: error %d: %s\n", err, text);
    exit(1);
}

void pair_init(struct pair *pair, const struct gs_tls_options *server,
               const struct gs_tls_options *client)
{
    static struct certificate_files files;
    if (!files.chain[0])
        certificate_make("server.test", &files);
    const struct gs_tls_certificate certificate = {.chain = files.chain, .key = files.key};
    struct gs_tls_options options[] = {
        server ? *server : (struct gs_tls_options){.is_client = false},
        client ? *client : (struct gs_tls_options){.verify = GS_TLS_VERIFY_NONE},
    };
    char text[GS_TLS_TEXT] = "";
    if (!options[0].certificate_count) {
        options[0].certificates = &certificate;
        options[0].certificate_count = 1;
    }
    options[1].is_client = true;
    *pair = (struct pair){.step = 100000};
    must(gs_tls_context_new(&options[0], &pair->server_context, text), text);
    must(gs_tls_context_new(&options[1], &pair->client_context, text), text);
    pair_renew(pair, "server.test");
}

void pair_done(struct pair *pair)
{
    gs_tls_engine_free(pair->server);
    gs_tls_engine_free(pair->client);
    gs_tls_context_release(pair->server_context);
    gs_tls_context_release(pair->client_context);
}

void pair_speak_1_2(struct pair *pair)
{
    must(!SSL_CTX_set_max_proto_version(pair->client_context->ssl, TLS1_2_VERSION), "TLS 1.2");
    pair_renew(pair, "server.test");
}

void pair_renew(struct pair *pair, const char *server_name)
{
    gs_tls_engine_free(pair->server);
    gs_tls_engine_free(pair->client);
    pair->server = pair->client = NULL;
    must(gs_tls_engine_new(pair->server_context, NULL, &pair->server), "server");
    must(gs_tls_engine_new(pair->client_context, server_name, &pair->client), "client");
}

ssize_t pair_pass(struct gs_tls_engine *from, struct gs_tls_engine *to, size_t step, void *plain,
                  size_t size)
{
    struct gs_tls_input input = {"", 0};
    ssize_t result = gs_tls_engine_read(to, &input, plain, size);
    size_t n;
    while (result == -EAGAIN && (input.bytes = gs_tls_engine_output(from, &n), n)) {
        size_t taken = input.n = n < step ? n : step;
        result = gs_tls_engine_read(to, &input, plain, size);
        gs_tls_engine_sent(from, taken - input.n);
    }
    return result;
}

int pair_exchange(struct pair *pair)
{
    char plain[100];
    ssize_t result;
    size_t n[2];
    do {
        result = pair_pass(pair->server, pair->client, pair->step, plain, sizeof plain);
        if (result == -EAGAIN)
            result = pair_pass(pair->client, pair->server, pair->step, plain, sizeof plain);
        gs_tls_engine_output(pair->server, &n[0]);
        gs_tls_engine_output(pair->client, &n[1]);
    } while (result == -EAGAIN && (n[0] || n[1]));
    return result == -EAGAIN ? 0 : (int)result;
}

bool pair_talk(struct gs_tls_engine *from, struct gs_tls_engine *to, size_t n, size_t step)
{
    static char bytes[1 << 17], read[1 << 17];
    size_t at = 0;
    ssize_t got = 1;
    must(n > sizeof bytes, "too much");
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    bool is_same = gs_tls_engine_write(from, bytes, n) == (ssize_t)n;
    while (is_same && at < n && got > 0) {
        got = pair_pass(from, to, step, read + at, n - at);
        at += got > 0 ? (size_t)got : 0;
    }
    return is_same && at == n && !memcmp(bytes, read, n);
}
