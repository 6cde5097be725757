#include "tls/engine.h"
#include "tls/secrets.h"
#include "tls/text.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Mozilla's "intermediate", version 5.7; newer versions of OpenSSL add ML-KEM. */
#define GROUPS "X25519:P-256:P-384"
#define CIPHERS                                                                                    \
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"     \
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define CIPHERS_1_3 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
/* Tickets are accepted for at least so long (ticket.c). */
#define SESSION_SECONDS 3600

/* ---- ALPN ---- */

static int choose_protocol(SSL *ssl, const unsigned char **ret_chosen, unsigned char *ret_n,
                           const unsigned char *offered, unsigned offered_n, void *data)
{
    const struct gs_tls_context *context = data;
    int found = SSL_select_next_proto((unsigned char **)ret_chosen, ret_n, context->protocols,
                                      context->protocols_n, offered, offered_n);
    (void)ssl;
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int list_protocols(struct gs_tls_context *context, const struct gs_tls_options *options)
{
    size_t n = 0;
    for (unsigned i = 0; i < options->protocol_count; i++)
        n += strlen(options->protocols[i]) + 1;
    unsigned char *at = context->protocols = malloc(n);
    char *name = context->protocol_names = calloc(1, n + 1);
    if (!at || !name)
        return -ENOMEM;
    context->protocols_n = (unsigned)n;
    for (unsigned i = 0; i < options->protocol_count; i++) {
        size_t length = strlen(options->protocols[i]);
        *at = (unsigned char)length;
        memcpy(at + 1, options->protocols[i], length);
        memcpy(name + 1, options->protocols[i], length);
        at += length + 1;
        name += length + 1;
    }
    return 0;
}

static int set_protocols(struct gs_tls_context *context, const struct gs_tls_options *options,
                         char *ret_text)
{
    if (!options->protocol_count)
        return 0;
    for (unsigned i = 0; i < options->protocol_count; i++) {
        size_t length = strlen(options->protocols[i]);
        if (!length || length > 255)
            return gs_tls_say(ret_text, "the name of a protocol has 1 to 255 bytes, and not %zu",
                              length);
    }
    int err = list_protocols(context, options);
    if (err)
        return err;
    if (!context->is_client)
        SSL_CTX_set_alpn_select_cb(context->ssl, choose_protocol, context);
    else if (SSL_CTX_set_alpn_protos(context->ssl, context->protocols, context->protocols_n))
        return -ENOMEM;
    return 0;
}

/* ---- The key log ---- */

/* One call for each line: several processes may write to the file. */
static void on_key(const SSL *ssl, const char *line)
{
    struct gs_tls_engine *engine = gs_tls_engine_of(ssl);
    struct iovec parts[] = {{(char *)line, strlen(line)}, {(char *)"\n", 1}};
    (void)!gs_sys_writev(engine->context->key_log, parts, 2);
}

static int open_key_log(struct gs_tls_context *context, const char *path, char *ret_text)
{
    if (!path)
        return 0;
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;
    context->key_log = gs_sys_openat(AT_FDCWD, path, flags, 0600);
    if (context->key_log >= 0) {
        SSL_CTX_set_keylog_callback(context->ssl, on_key);
        return 0;
    }
    (void)gs_tls_say(ret_text, "%s cannot be written: %s", path, strerror(-context->key_log));
    return context->key_log;
}

/* ---- Rules ---- */

static int set_rules(SSL_CTX *ssl, const struct gs_tls_options *options)
{
    int least = options->is_modern ? TLS1_3_VERSION : TLS1_2_VERSION;
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_PRIORITIZE_CHACHA | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_num_tickets(ssl, 1);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(ssl, SESSION_SECONDS);
    SSL_CTX_set_msg_callback(ssl, gs_tls_on_message);
    bool is_set = SSL_CTX_set_min_proto_version(ssl, least) &&
                  (SSL_CTX_set1_groups_list(ssl, "X25519MLKEM768:" GROUPS) ||
                   SSL_CTX_set1_groups_list(ssl, GROUPS)) &&
                  SSL_CTX_set_cipher_list(ssl, CIPHERS) &&
                  SSL_CTX_set_ciphersuites(ssl, CIPHERS_1_3) &&
                  SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, gs_tls_ticket_key);
    ERR_clear_error();
    return is_set ? 0 : -ENOMEM;
}

/* ---- Certificates ---- */

/* OpenSSL has each of them first, so that it refuses what it would refuse in a handshake. */
static int use_certificates(struct gs_tls_context *context, const struct gs_tls_options *options,
                            char *ret_text)
{
    for (unsigned i = options->certificate_count; i-- > 0;) {
        const struct gs_tls_identity *identity = &context->identities[i];
        if (SSL_CTX_use_cert_and_key(context->ssl, identity->certificate, identity->key,
                                     identity->chain, 1) != 1)
            return gs_tls_say(ret_text, "the certificate in %s is refused: %s",
                              options->certificates[i].chain, gs_tls_last_reason());
    }
    return 0;
}

static int load_certificates(struct gs_tls_context *context, const struct gs_tls_options *options,
                             char *ret_text)
{
    unsigned n = options->certificate_count;
    int err = 0;
    if (!options->is_client && !n)
        return gs_tls_say(ret_text, "a server needs a certificate");
    if (options->is_client && n > 1)
        return gs_tls_say(ret_text, "a client has one certificate at most");
    if (!n)
        return 0;
    context->identities = calloc(n, sizeof *context->identities);
    if (!context->identities)
        return -ENOMEM;
    for (unsigned i = 0; !err && i < n; i++) {
        struct gs_tls_identity *identity = &context->identities[i];
        context->identity_count++;
        err = gs_tls_identity_init(identity, &options->certificates[i], ret_text);
        int64_t expiry = err ? INT64_MAX : gs_tls_identity_expiry(identity);
        context->expiry = expiry < context->expiry ? expiry : context->expiry;
    }
    return err ? err : use_certificates(context, options, ret_text);
}

/* ---- Life ---- */

static int set_up(struct gs_tls_context *context, const struct gs_tls_options *options,
                  char *ret_text)
{
    int err = gs_tls_bio_init();
    gs_tls_seal_init();
    if (!err)
        err = set_rules(context->ssl, options);
    if (!err)
        err = set_protocols(context, options, ret_text);
    if (!err)
        err = load_certificates(context, options, ret_text);
    if (!err && !options->is_client)
        err = gs_tls_choose_init(context);
    if (!err)
        err = gs_tls_verify_init(context, options, ret_text);
    if (!err)
        err = open_key_log(context, options->key_log, ret_text);
    return err;
}

/* The number of the next record is what OpenSSL's message callback lets us count, which no document
 * promises: so only versions are trusted with which this was tried. */
static bool may_take_over(void)
{
    unsigned long series = OpenSSL_version_num() >> 20;
    const char *records = secure_getenv("GOSSAMER_TLS_RECORDS");
    bool is_known = series == 0x300 || series == 0x305 || series == 0x306;
    return is_known && !(records && !strcmp(records, "openssl")) && gs_tls_secrets_init();
}

static SSL_CTX *new_ssl(const struct gs_tls_context *context)
{
    return SSL_CTX_new_ex(NULL, context->takes_over ? GS_TLS_SECRETS_PROPERTIES : NULL,
                          context->is_client ? TLS_client_method() : TLS_server_method());
}

int gs_tls_context_new(const struct gs_tls_options *options, struct gs_tls_context **ret_context,
                       char ret_text[GS_TLS_TEXT])
{
    struct gs_tls_context *context = calloc(1, sizeof *context);
    (void)gs_tls_say(ret_text, "there is not enough memory");
    if (!context)
        return -ENOMEM;
    ERR_clear_error();
    context->operations = &gs_tls_operations;
    context->is_client = options->is_client;
    context->expiry = INT64_MAX;
    context->key_log = -1;
    context->forgets_sessions = options->forgets_sessions;
    pthread_mutex_init(&context->sessions.lock, NULL);
    context->takes_over = may_take_over();
    atomic_init(&context->references, 1);
    context->ssl = new_ssl(context);
    int err = context->ssl ? set_up(context, options, ret_text) : -ENOMEM;
    ERR_clear_error();
    if (err)
        gs_tls_context_release(context);
    else
        *ret_context = context;
    return err;
}

void gs_tls_context_hold(struct gs_tls_context *context)
{
    atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
}

void gs_tls_context_release(struct gs_tls_context *context)
{
    if (!context || atomic_fetch_sub(&context->references, 1) > 1)
        return;
    gs_tls_sessions_done(&context->sessions);
    SSL_CTX_free(context->ssl);
    gs_tls_choose_done(context);
    for (unsigned i = 0; i < context->identity_count; i++)
        gs_tls_identity_done(&context->identities[i]);
    free(context->identities);
    free(context->protocols);
    free(context->protocol_names);
    if (context->key_log >= 0)
        gs_sys_close(context->key_log);
    free(context);
}

int64_t gs_tls_context_expiry(const struct gs_tls_context *context)
{
    return context->expiry;
}

int64_t gs_tls_context_ocsp_expiry(const struct gs_tls_context *context)
{
    int64_t first = INT64_MAX;
    for (unsigned i = 0; i < context->identity_count; i++) {
        const struct gs_tls_identity *identity = &context->identities[i];
        if (identity->ocsp && identity->ocsp_expiry < first)
            first = identity->ocsp_expiry;
    }
    return first;
}
