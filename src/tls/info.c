/* What has become of a connection. */
#include "tls/engine.h"

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <stdio.h>

static enum gs_tls_failure failure_of(const struct gs_tls_engine *engine)
{
    int reason = ERR_GET_REASON(engine->error);
    if (!engine->has_failed)
        return GS_TLS_NO_FAILURE;
    switch (reason) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        return GS_TLS_FAILED_HTTP;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_GROUPS:
    case SSL_R_WRONG_VERSION_NUMBER:
        return GS_TLS_FAILED_VERSION;
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return GS_TLS_FAILED_VERIFY;
    default:
        return reason > SSL_AD_REASON_OFFSET ? GS_TLS_FAILED_ALERT : GS_TLS_FAILED_PROTOCOL;
    }
}

void gs_tls_engine_info(const struct gs_tls_engine *engine, struct gs_tls_info *ret_info)
{
    const SSL *ssl = engine->ssl;
    *ret_info = (struct gs_tls_info){
        .is_established = SSL_is_init_finished(ssl),
        .is_resumed = SSL_session_reused((SSL *)ssl),
        .version = SSL_get_version(ssl),
        .cipher = SSL_get_cipher_name(ssl),
        .server_name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name),
        .failure = failure_of(engine),
    };
}

void gs_tls_engine_error(const struct gs_tls_engine *engine, char ret_text[GS_TLS_TEXT])
{
    const char *reason = engine->error ? ERR_reason_error_string(engine->error) : NULL;
    snprintf(ret_text, GS_TLS_TEXT, "%s",
             !engine->has_failed ? ""
             : reason            ? reason
                                 : "unknown error");
}
