/* Bytes from a client to the engine of a server, from the first one on. The first byte of the input
 * chooses whether they are those of a server, for a client, and in which pieces they arrive. The
 * random numbers of OpenSSL are not fixed, so that no input gets beyond the handshake:
 * fuzz_tls_records begins there. */
#include "tests/tls/certificates.h"
#include "tls/engine.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static struct gs_tls_context *contexts[2];

static void make_contexts(void)
{
    struct certificate_files files[2];
    certificate_make("server.test", &files[0]);
    certificate_make("*.test", &files[1]);
    const struct gs_tls_certificate certificates[] = {
        {.chain = files[0].chain, .key = files[0].key},
        {.chain = files[1].chain, .key = files[1].key},
    };
    static const char *const protocols[] = {"h2", "http/1.1"};
    const struct gs_tls_options server = {.certificates = certificates,
                                          .certificate_count = 2,
                                          .protocols = protocols,
                                          .protocol_count = 2,
                                          .verify = GS_TLS_VERIFY_OPTIONAL,
                                          .ca_file = files[0].chain};
    const struct gs_tls_options client = {.is_client = true, .ca_file = files[0].chain};
    if (gs_tls_context_new(&server, &contexts[0], NULL) ||
        gs_tls_context_new(&client, &contexts[1], NULL))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct gs_tls_engine *engine;
    char plain[100], text[GS_TLS_TEXT];
    if (!contexts[0])
        make_contexts();
    if (!n)
        return 0;
    int is_client = bytes[0] & 1;
    size_t step = bytes[0] & 2 ? 1 + (bytes[0] >> 2) : n;
    if (gs_tls_engine_new(contexts[is_client], is_client ? "server.test" : NULL, &engine))
        abort();
    ssize_t result = -EAGAIN;
    struct gs_tls_input input = {"", 0};
    (void)!gs_tls_engine_read(engine, &input, plain, sizeof plain);
    for (size_t at = 1; at < n && result == -EAGAIN; at += step) {
        input = (struct gs_tls_input){(const char *)bytes + at, n - at < step ? n - at : step};
        result = gs_tls_engine_read(engine, &input, plain, sizeof plain);
        if (result == -EAGAIN && input.n)
            abort();
    }
    size_t output_n;
    gs_tls_engine_output(engine, &output_n);
    gs_tls_engine_error(engine, text);
    if (result > 0 || output_n > 20000 || (result == -EPROTO) != !!*text)
        abort();
    gs_tls_engine_free(engine);
    return 0;
}
