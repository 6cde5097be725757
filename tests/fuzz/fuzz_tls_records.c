/* Records of a client after the handshake, with keys that do not change from run to run. The input
 * is a list: a byte of flags and one of length, then as many bytes of content.
 *
 *     bits 0 and 1   the type: application data, alert, handshake, or another
 *     bit 2          the bytes are sent as they are, and not as a record
 *     bit 3          the key of the client changes after them
 *     bits 4 to 7    the room for plaintext, and the size of the pieces
 */
#include "tls/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const struct gs_tls_derived derived = {.secret_n = 32, .key_n = 16, .iv_n = 12};

static struct gs_tls_engine *new_engine(struct gs_tls_context *context)
{
    struct gs_tls_engine *engine = calloc(1, sizeof *engine);
    struct gs_tls_records *records = calloc(1, sizeof *records);
    if (!engine || !records)
        abort();
    engine->context = context;
    engine->records = records;
    engine->is_established = true;
    if (!gs_tls_keys_init(&records->sent, TLS1_3_CK_AES_128_GCM_SHA256, &derived, true) ||
        !gs_tls_keys_init(&records->received, TLS1_3_CK_AES_128_GCM_SHA256, &derived, false))
        abort();
    engine->kept = calloc(1, sizeof *engine->kept);
    return engine;
}

/* Returns false: the connection has ended. */
static bool receive(struct gs_tls_engine *engine, const unsigned char *bytes, size_t n,
                    unsigned size)
{
    char plain[400];
    struct gs_tls_input input = {(const char *)bytes, 0};
    size_t left = n, step = 1 + size * size * size;
    ssize_t result = -EAGAIN;
    while (left || result > 0) {
        if (!input.n) {
            input.n = left < step ? left : step;
            left -= input.n;
        }
        result = gs_tls_engine_read(engine, &input, plain, 1 + size * 26);
        if (result > 1 + (ssize_t)size * 26 || (result == -EAGAIN && input.n))
            abort();
        if (result <= 0 && result != -EAGAIN)
            return false;
    }
    return true;
}

static size_t seal(struct gs_tls_keys *keys, unsigned flags, const uint8_t *bytes, size_t n,
                   unsigned char *record)
{
    static const int types[] = {SSL3_RT_APPLICATION_DATA, SSL3_RT_ALERT, SSL3_RT_HANDSHAKE, 0};
    if (flags & 4) {
        memcpy(record, bytes, n);
        return n;
    }
    if (!gs_tls_seal(keys, types[flags & 3], bytes, n, record))
        abort();
    return n + GS_TLS_SEALED_MORE;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct gs_tls_context context = {.key_log = -1};
    unsigned char record[256 + GS_TLS_SEALED_MORE];
    char text[GS_TLS_TEXT];
    gs_tls_seal_init();
    atomic_init(&context.references, 100);
    context.is_client = n && bytes[0] & 1;
    struct gs_tls_engine *engine = new_engine(&context);
    struct gs_tls_keys client = {0};
    if (!gs_tls_keys_init(&client, TLS1_3_CK_AES_128_GCM_SHA256, &derived, true))
        abort();
    bool is_open = true;
    for (size_t at = 1; is_open && at + 2 <= n;) {
        unsigned flags = bytes[at];
        size_t length = bytes[at + 1] < n - at - 2 ? bytes[at + 1] : n - at - 2;
        is_open = receive(engine, record, seal(&client, flags, bytes + at + 2, length, record),
                          flags >> 4);
        if (flags & 8 && !gs_tls_keys_update(&client))
            abort();
        at += 2 + length;
    }
    gs_tls_engine_error(engine, text);
    if (is_open && (*text || gs_tls_engine_write(engine, "x", 1) != 1))
        abort();
    gs_tls_keys_done(&client);
    gs_tls_engine_free(engine);
    return 0;
}
