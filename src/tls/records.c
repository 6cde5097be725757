#include "tls/records.h"

#include "tls/engine.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PLAIN ((size_t)16384)
#define MAX_SEALED (MAX_PLAIN + 256)
#define SEALED_ALERT (2 + GS_TLS_SEALED_MORE)
/* A record without plaintext for the caller. */
#define NOTHING (-EAGAIN)

/* ---- Sending ---- */

static int lack_memory(struct gs_tls_engine *engine)
{
    engine->lacks_memory = engine->has_failed = true;
    return -ENOMEM;
}

static int seal(struct gs_tls_engine *engine, int type, const void *bytes, size_t n)
{
    unsigned char *at = gs_tls_output_reserve(engine, n + GS_TLS_SEALED_MORE);
    if (!at || !gs_tls_seal(&engine->records->sent, type, bytes, n, at))
        return lack_memory(engine);
    engine->output_n += n + GS_TLS_SEALED_MORE;
    return 0;
}

static int update_sent(struct gs_tls_engine *engine)
{
    static const unsigned char message[] = {SSL3_MT_KEY_UPDATE, 0, 0, 1, 0};
    int err = seal(engine, SSL3_RT_HANDSHAKE, message, sizeof message);
    engine->records->owes_update = false;
    if (!err && !gs_tls_keys_update(&engine->records->sent))
        err = lack_memory(engine);
    return err;
}

/* There is room for close_notify, too, which would otherwise double the size of the output. */
ssize_t gs_tls_records_write(struct gs_tls_engine *engine, const void *bytes, size_t n)
{
    const char *at = bytes, *end = at + n;
    size_t count = (n + MAX_PLAIN - 1) / MAX_PLAIN;
    if (!n)
        return 0;
    if (!gs_tls_output_reserve(engine, n + count * GS_TLS_SEALED_MORE + SEALED_ALERT))
        return lack_memory(engine);
    int err = 0;
    while (!err && at < end) {
        size_t part = (size_t)(end - at) < MAX_PLAIN ? (size_t)(end - at) : MAX_PLAIN;
        if (engine->records->owes_update || engine->records->sent.sequence >= GS_TLS_MAX_RECORDS)
            err = update_sent(engine);
        if (!err)
            err = seal(engine, SSL3_RT_APPLICATION_DATA, at, part);
        at += part;
    }
    return err ? err : (ssize_t)n;
}

static void send_alert(struct gs_tls_engine *engine, int level, int alert)
{
    const unsigned char bytes[] = {(unsigned char)level, (unsigned char)alert};
    (void)seal(engine, SSL3_RT_ALERT, bytes, sizeof bytes);
}

void gs_tls_records_close(struct gs_tls_engine *engine)
{
    send_alert(engine, SSL3_AL_WARNING, SSL_AD_CLOSE_NOTIFY);
}

/* ---- What is in a record ---- */

static int fail(struct gs_tls_engine *engine, int alert, int reason)
{
    if (!engine->is_closed)
        send_alert(engine, SSL3_AL_FATAL, alert);
    engine->has_failed = true;
    engine->error = ERR_PACK(ERR_LIB_SSL, 0, (unsigned)reason);
    return -EPROTO;
}

static int fail_unexpected(struct gs_tls_engine *engine)
{
    return fail(engine, SSL_AD_UNEXPECTED_MESSAGE, SSL_R_UNEXPECTED_MESSAGE);
}

/* The answer is sent with the next data: so one is the answer to many. */
static int take_key_update(struct gs_tls_engine *engine, unsigned is_requested)
{
    if (is_requested > 1)
        return fail(engine, SSL_AD_ILLEGAL_PARAMETER, SSL_R_BAD_KEY_UPDATE);
    if (!gs_tls_keys_update(&engine->records->received))
        return lack_memory(engine);
    engine->records->owes_update |= is_requested;
    return 0;
}

/* The head of a message, which has four bytes. A client ignores tickets that come late. */
static int take_head(struct gs_tls_engine *engine)
{
    struct gs_tls_records *records = engine->records;
    const unsigned char *head = records->message;
    size_t n = (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
    if (gs_tls_is_flood(engine))
        return -EPROTO;
    if (head[0] == SSL3_MT_NEWSESSION_TICKET && engine->context->is_client) {
        records->skipped = n;
        records->message_n = 0;
        return 0;
    }
    if (head[0] != SSL3_MT_KEY_UPDATE)
        return fail_unexpected(engine);
    return n == 1 ? 0 : fail(engine, SSL_AD_DECODE_ERROR, SSL_R_BAD_KEY_UPDATE);
}

/* Messages may be cut anywhere, but one that changes the key ends its record. */
static int take_handshake(struct gs_tls_engine *engine, const unsigned char *bytes, size_t n)
{
    struct gs_tls_records *records = engine->records;
    int err = n ? 0 : fail_unexpected(engine);
    while (!err && n) {
        size_t ignored = n < records->skipped ? n : records->skipped;
        records->skipped -= ignored;
        bytes += ignored;
        n -= ignored;
        if (!n)
            break;
        records->message[records->message_n++] = *bytes++;
        n--;
        if (records->message_n == 4)
            err = take_head(engine);
        if (err || records->message_n < 5)
            continue;
        records->message_n = 0;
        err = n ? fail_unexpected(engine) : take_key_update(engine, records->message[4]);
    }
    return err ? err : NOTHING;
}

static int take_alert(struct gs_tls_engine *engine, const unsigned char *bytes, size_t n)
{
    if (!n)
        return fail_unexpected(engine);
    if (n != 2)
        return fail(engine, SSL_AD_DECODE_ERROR, SSL_R_BAD_LENGTH);
    if (bytes[1] == SSL_AD_CLOSE_NOTIFY) {
        engine->records->is_peer_closed = true;
        return 0;
    }
    if (bytes[1] == SSL_AD_USER_CANCELLED)
        return gs_tls_is_flood(engine) ? -EPROTO : NOTHING;
    engine->has_failed = true;
    engine->error = ERR_PACK(ERR_LIB_SSL, 0, SSL_AD_REASON_OFFSET + bytes[1]);
    return -EPROTO;
}

/* Returns the bytes of plaintext, which begins where the content does; 0: the peer has closed;
 * NOTHING; or an error. */
static ssize_t take_content(struct gs_tls_engine *engine, const unsigned char *content, size_t n)
{
    const struct gs_tls_records *records = engine->records;
    if (n > MAX_PLAIN + 1)
        return fail(engine, SSL_AD_RECORD_OVERFLOW, SSL_R_DATA_LENGTH_TOO_LONG);
    while (n && !content[n - 1])
        n--;
    int type = n ? content[--n] : 0;
    if (type == SSL3_RT_HANDSHAKE)
        return take_handshake(engine, content, n);
    if (records->message_n || records->skipped)
        return fail_unexpected(engine);
    if (type == SSL3_RT_ALERT)
        return take_alert(engine, content, n);
    if (type != SSL3_RT_APPLICATION_DATA)
        return fail_unexpected(engine);
    if (!n)
        return gs_tls_is_flood(engine) ? -EPROTO : NOTHING;
    engine->messages = 0;
    return (ssize_t)n;
}

/* ---- Receiving ---- */

static size_t size_of(const unsigned char *record)
{
    return GS_TLS_HEADER + ((size_t)record[3] << 8 | record[4]);
}

static int check_header(struct gs_tls_engine *engine, const unsigned char *record)
{
    size_t n = size_of(record) - GS_TLS_HEADER;
    if (record[0] != SSL3_RT_APPLICATION_DATA)
        return fail_unexpected(engine);
    if (n > MAX_SEALED)
        return fail(engine, SSL_AD_RECORD_OVERFLOW, SSL_R_ENCRYPTED_LENGTH_TOO_LONG);
    return n > GS_TLS_TAG ? 0 : fail(engine, SSL_AD_BAD_RECORD_MAC, SSL_R_LENGTH_TOO_SHORT);
}

/* Copy input to the partial record, at most up to the end of its header or of all of it. Returns 1:
 * it is whole; 0: it is not yet; or an error. */
static int gather(struct gs_tls_engine *engine, struct gs_tls_input *input)
{
    struct gs_tls_records *records = engine->records;
    bool has_header = records->partial && records->partial_n >= GS_TLS_HEADER;
    size_t size = has_header ? size_of(records->partial) : GS_TLS_HEADER;
    if (!records->partial || records->partial_n == GS_TLS_HEADER) {
        unsigned char *partial = realloc(records->partial, size);
        if (!partial)
            return lack_memory(engine);
        records->partial = partial;
    }
    size_t n = size - records->partial_n;
    n = n < input->n ? n : input->n;
    memcpy(records->partial + records->partial_n, input->bytes, n);
    records->partial_n += n;
    input->bytes += n;
    input->n -= n;
    if (!has_header && records->partial_n == size)
        return check_header(engine, records->partial);
    return records->partial_n == size;
}

/* Returns 1: *ret_record is a whole record; 0: more input is needed; or an error. */
static int next_record(struct gs_tls_engine *engine, struct gs_tls_input *input,
                       const unsigned char **ret_record)
{
    struct gs_tls_records *records = engine->records;
    const unsigned char *bytes = (const unsigned char *)input->bytes;
    int result = 0;
    if (!records->partial && input->n >= GS_TLS_HEADER) {
        result = check_header(engine, bytes);
        size_t size = size_of(bytes);
        if (!result && size <= input->n) {
            input->bytes += size;
            input->n -= size;
            *ret_record = bytes;
            return 1;
        }
    }
    while (!result && input->n)
        result = gather(engine, input);
    *ret_record = records->partial;
    return result;
}

static void drop_partial(struct gs_tls_records *records)
{
    free(records->partial);
    records->partial = NULL;
    records->partial_n = 0;
}

static void drop_rest(struct gs_tls_records *records)
{
    OPENSSL_clear_free(records->rest, records->rest_size);
    records->rest = NULL;
}

static ssize_t give_rest(struct gs_tls_records *records, void *plain, size_t size)
{
    size_t n = records->rest_n - records->rest_at;
    n = n < size ? n : size;
    memcpy(plain, records->rest + records->rest_at, n);
    records->rest_at += n;
    if (records->rest_at == records->rest_n)
        drop_rest(records);
    return (ssize_t)n;
}

/* The content goes to `plain`, or by way of the rest if that may be too small. */
static ssize_t open_record(struct gs_tls_engine *engine, const unsigned char *record, void *plain,
                           size_t size)
{
    struct gs_tls_records *records = engine->records;
    size_t n = size_of(record) - GS_TLS_HEADER - GS_TLS_TAG;
    if (n > size) {
        records->rest = OPENSSL_malloc(n);
        records->rest_size = n;
    }
    unsigned char *content = n > size ? records->rest : plain;
    if (!content)
        return lack_memory(engine);
    ssize_t result =
        gs_tls_open(&records->received, record, content)
            ? take_content(engine, content, n)
            : fail(engine, SSL_AD_BAD_RECORD_MAC, SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC);
    if (n <= size)
        return result;
    if (result <= 0) {
        drop_rest(records);
        return result;
    }
    records->rest_at = 0;
    records->rest_n = (size_t)result;
    return give_rest(records, plain, size);
}

ssize_t gs_tls_records_read(struct gs_tls_engine *engine, struct gs_tls_input *input, void *plain,
                            size_t size)
{
    struct gs_tls_records *records = engine->records;
    const unsigned char *record = NULL;
    ssize_t result = NOTHING;
    if (records->rest)
        return give_rest(records, plain, size);
    while (result == NOTHING) {
        if (records->is_peer_closed)
            return 0;
        int has_record = next_record(engine, input, &record);
        if (has_record <= 0)
            return has_record ? has_record : -EAGAIN;
        result = open_record(engine, record, plain, size);
        drop_partial(records);
    }
    return result;
}

/* ---- Life ---- */

/* Who wants smaller records (RFC 6066, section 4) gets them from OpenSSL. */
static bool has_small_records(const SSL *ssl)
{
    unsigned mode = SSL_SESSION_get_max_fragment_length(SSL_get_session(ssl));
    return mode >= TLSEXT_max_fragment_length_512 && mode <= TLSEXT_max_fragment_length_4096;
}

static struct gs_tls_records *new_records(const struct gs_tls_engine *engine)
{
    unsigned cipher = (unsigned)SSL_CIPHER_get_id(SSL_get_current_cipher(engine->ssl));
    const struct gs_tls_traffic *traffic = engine->traffic;
    bool is_client = engine->context->is_client;
    struct gs_tls_records *records = calloc(1, sizeof *records);
    if (!records)
        return NULL;
    const struct gs_tls_derived *sent = is_client ? &traffic->client : &traffic->server;
    const struct gs_tls_derived *received = is_client ? &traffic->server : &traffic->client;
    if (!gs_tls_keys_init(&records->sent, cipher, sent, true) ||
        !gs_tls_keys_init(&records->received, cipher, received, false)) {
        gs_tls_records_free(records);
        return NULL;
    }
    records->sent.sequence = engine->sent_records;
    records->received.sequence = engine->received_records;
    return records;
}

void gs_tls_records_take_over(struct gs_tls_engine *engine)
{
    SSL *ssl = engine->ssl;
    if (!engine->traffic || SSL_has_pending(ssl))
        return;
    bool is_possible =
        !engine->has_new_keys && SSL_version(ssl) == TLS1_3_VERSION && !has_small_records(ssl);
    engine->records = is_possible ? new_records(engine) : NULL;
    if (engine->records && gs_tls_keep_info(engine)) {
        gs_tls_drop_openssl(engine);
    } else {
        gs_tls_records_free(engine->records);
        engine->records = NULL;
    }
    gs_tls_traffic_free(engine->traffic);
    engine->traffic = NULL;
}

void gs_tls_records_free(struct gs_tls_records *records)
{
    if (!records)
        return;
    gs_tls_keys_done(&records->sent);
    gs_tls_keys_done(&records->received);
    free(records->partial);
    if (records->rest)
        drop_rest(records);
    free(records);
}
