#include "tls/context.h"

#include "tls/text.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

/* Mozilla's "intermediate", version 5.7. */
#define GROUPS "X25519:P-256:P-384"
#define CIPHERS                                                                                    \
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"     \
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"

/* ---- Rules ---- */

static int set_rules(SSL_CTX *ssl, const struct gs_tls_options *options)
{
    int least = options->is_modern ? TLS1_3_VERSION : TLS1_2_VERSION;
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_PRIORITIZE_CHACHA | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_num_tickets(ssl, 1);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    bool is_set = SSL_CTX_set_min_proto_version(ssl, least) &&
                  SSL_CTX_set1_groups_list(ssl, GROUPS) && SSL_CTX_set_cipher_list(ssl, CIPHERS);
    return is_set ? 0 : -ENOMEM;
}

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

static int set_protocols(struct gs_tls_context *context, const struct gs_tls_options *options)
{
    size_t n = 0;
    for (unsigned i = 0; i < options->protocol_count; i++) {
        size_t length = strlen(options->protocols[i]);
        if (!length || length > 255)
            return -EINVAL;
        n += length + 1;
    }
    unsigned char *at = context->protocols = malloc(n + 1);
    if (!at)
        return -ENOMEM;
    context->protocols_n = (unsigned)n;
    for (unsigned i = 0; i < options->protocol_count; i++) {
        *at = (unsigned char)strlen(options->protocols[i]);
        memcpy(at + 1, options->protocols[i], *at);
        at += *at + 1;
    }
    if (n && context->is_client &&
        SSL_CTX_set_alpn_protos(context->ssl, context->protocols, (unsigned)n))
        return -ENOMEM;
    if (n && !context->is_client)
        SSL_CTX_set_alpn_select_cb(context->ssl, choose_protocol, context);
    return 0;
}

/* ---- Certificates ---- */

static int load_certificate(SSL_CTX *ssl, const struct gs_tls_certificate *certificate,
                            char *ret_text)
{
    const char *key = certificate->key ? certificate->key : certificate->chain;
    if (SSL_CTX_use_certificate_chain_file(ssl, certificate->chain) != 1)
        return gs_tls_say_file(ret_text, certificate->chain, "holds no certificate");
    if (SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1)
        return gs_tls_say_file(ret_text, key, "holds no key that fits the certificate");
    return 0;
}

static int set_up(struct gs_tls_context *context, const struct gs_tls_options *options,
                  char *ret_text)
{
    int err = set_rules(context->ssl, options);
    if (!err)
        err = set_protocols(context, options);
    if (!err && !options->is_client && !options->certificate_count)
        err = gs_tls_say(ret_text, "a server needs a certificate");
    if (!err && options->certificate_count)
        err = load_certificate(context->ssl, &options->certificates[0], ret_text);
    return err;
}

int gs_tls_context_new(const struct gs_tls_options *options, struct gs_tls_context **ret_context,
                       char ret_text[GS_TLS_TEXT])
{
    struct gs_tls_context *context = calloc(1, sizeof *context);
    if (!context)
        return -ENOMEM;
    ERR_clear_error();
    context->is_client = options->is_client;
    context->expiry = INT64_MAX;
    atomic_init(&context->references, 1);
    context->ssl = SSL_CTX_new(options->is_client ? TLS_client_method() : TLS_server_method());
    int err = context->ssl ? set_up(context, options, ret_text) : -ENOMEM;
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
    SSL_CTX_free(context->ssl);
    free(context->protocols);
    free(context);
}

int64_t gs_tls_context_expiry(const struct gs_tls_context *context)
{
    return context->expiry;
}
