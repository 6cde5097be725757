/* What has become of a connection. */
#include "tls/engine.h"
#include "tls/text.h"

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reasons ---- */

struct reason {
    int reason; /* OpenSSL's, or an alert of the peer's */
    enum gs_tls_failure failure;
    const char *text; /* NULL: OpenSSL's own */
};

static const struct reason reasons[] = {
    {SSL_R_HTTP_REQUEST, GS_TLS_FAILED_HTTP, "the client speaks HTTP, without TLS: use https://"},
    {SSL_R_HTTPS_PROXY_REQUEST, GS_TLS_FAILED_HTTP, "the client takes this server for a proxy"},
    {SSL_R_UNSUPPORTED_PROTOCOL, GS_TLS_FAILED_VERSION,
     "the peer speaks only versions of TLS that are refused here"},
    {SSL_R_NO_SHARED_CIPHER, GS_TLS_FAILED_VERSION, "the peer has no cipher that is allowed here"},
    {SSL_R_NO_SUITABLE_KEY_SHARE, GS_TLS_FAILED_VERSION,
     "the peer has no group that is allowed here"},
    {SSL_R_NO_SUITABLE_GROUPS, GS_TLS_FAILED_VERSION, "the peer has no group that is allowed here"},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, GS_TLS_FAILED_VERSION,
     "the peer cannot verify the kind of signature of this side's certificate"},
    {SSL_R_NO_APPLICATION_PROTOCOL, GS_TLS_FAILED_VERSION,
     "the peer offers no protocol (ALPN) that is spoken here"},
    {SSL_R_CERTIFICATE_VERIFY_FAILED, GS_TLS_FAILED_VERIFY, NULL},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, GS_TLS_FAILED_VERIFY,
     "the client has shown no certificate, which is required"},
    {SSL_R_WRONG_VERSION_NUMBER, GS_TLS_FAILED_PROTOCOL, "the peer does not speak TLS"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, GS_TLS_FAILED_ALERT,
     "the peer does not trust the CA of this side's certificate: the file of the certificate must "
     "also have those of its issuers (alert: unknown CA)"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, GS_TLS_FAILED_ALERT,
     "the peer says that this side's certificate has expired (alert: certificate expired)"},
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, GS_TLS_FAILED_ALERT,
     "the server requires a certificate of the client (alert: certificate required)"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, GS_TLS_FAILED_VERSION,
     "the peer refuses the versions of TLS that are spoken here (alert: protocol version)"},
    {SSL_R_TLSV1_ALERT_NO_RENEGOTIATION, GS_TLS_FAILED_ALERT, NULL},
};

static struct reason reason_of(unsigned long error)
{
    int reason = ERR_GET_REASON(error);
    for (unsigned i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reason == reasons[i].reason)
            return reasons[i];
    bool is_alert = reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256;
    return (struct reason){reason, is_alert ? GS_TLS_FAILED_ALERT : GS_TLS_FAILED_PROTOCOL, NULL};
}

static enum gs_tls_failure failure_of(const struct gs_tls_engine *engine)
{
    if (!engine->has_failed)
        return GS_TLS_NO_FAILURE;
    if (engine->lacks_memory)
        return GS_TLS_FAILED_MEMORY;
    if (engine->text)
        return GS_TLS_FAILED_VERIFY;
    return engine->speaks_http ? GS_TLS_FAILED_HTTP : reason_of(engine->error).failure;
}

static void say_reason(const struct gs_tls_engine *engine, char *ret_text)
{
    const struct reason reason = reason_of(engine->error);
    const char *text = engine->error ? ERR_reason_error_string(engine->error) : NULL;
    if (reason.text)
        (void)gs_tls_say(ret_text, "%s", reason.text);
    else if (reason.failure == GS_TLS_FAILED_ALERT)
        (void)gs_tls_say(ret_text, "the peer has given up (alert: %s)",
                         SSL_alert_desc_string_long(reason.reason - SSL_AD_REASON_OFFSET));
    else
        (void)gs_tls_say(ret_text, "what the peer has sent is not as TLS demands: %s",
                         text ? text : "unknown error");
}

void gs_tls_engine_error(const struct gs_tls_engine *engine, char ret_text[GS_TLS_TEXT])
{
    *ret_text = 0;
    if (!engine->has_failed)
        return;
    if (engine->lacks_memory)
        (void)gs_tls_say(ret_text, "there is not enough memory");
    else if (engine->is_flooded)
        (void)gs_tls_say(ret_text, "the peer sends messages of TLS without end, and no data");
    else if (engine->speaks_http)
        (void)gs_tls_say(ret_text, "the server speaks HTTP, without TLS: use http://");
    else if (engine->text)
        (void)gs_tls_say(ret_text, "%s", engine->text);
    else
        say_reason(engine, ret_text);
}

/* ---- What has been agreed on ---- */

static const char *protocol_of(const struct gs_tls_engine *engine)
{
    const struct gs_tls_context *context = engine->context;
    const unsigned char *chosen;
    unsigned n;
    SSL_get0_alpn_selected(engine->ssl, &chosen, &n);
    for (unsigned at = 0; n && at < context->protocols_n; at += context->protocols[at] + 1u)
        if (context->protocols[at] == n && !memcmp(context->protocols + at + 1, chosen, n))
            return context->protocol_names + at + 1;
    return NULL;
}

void gs_tls_engine_info(const struct gs_tls_engine *engine, struct gs_tls_info *ret_info)
{
    const SSL *ssl = engine->ssl;
    if (ssl)
        *ret_info = (struct gs_tls_info){
            .is_established = engine->is_established,
            .is_resumed = engine->is_established && SSL_session_reused(ssl),
            .version = SSL_get_version(ssl),
            .cipher = SSL_get_cipher_name(ssl),
            .server_name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name),
            .protocol = protocol_of(engine),
        };
    else
        *ret_info = engine->kept->info;
    ret_info->failure = failure_of(engine);
}

bool gs_tls_keep_info(struct gs_tls_engine *engine)
{
    const char *name = SSL_get_servername(engine->ssl, TLSEXT_NAMETYPE_host_name);
    size_t n = name ? strlen(name) + 1 : 0;
    struct gs_tls_kept *kept = malloc(sizeof *kept + n);
    if (!kept)
        return false;
    gs_tls_engine_info(engine, &kept->info);
    if (name)
        kept->info.server_name = memcpy(kept->server_name, name, n);
    kept->session = (SSL_SESSION *)gs_tls_engine_session(engine);
    engine->kept = kept;
    return true;
}
