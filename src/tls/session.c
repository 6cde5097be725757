/* A session is OpenSSL's, under another name. */
#include "tls/engine.h"

#include <errno.h>
#include <openssl/err.h>

struct gs_tls_session *gs_tls_engine_session(struct gs_tls_engine *engine)
{
    SSL_SESSION *session = SSL_get0_session(engine->ssl);
    if (!engine->context->is_client || !session || !SSL_SESSION_is_resumable(session))
        return NULL;
    return (struct gs_tls_session *)SSL_get1_session(engine->ssl);
}

int gs_tls_engine_resume(struct gs_tls_engine *engine, struct gs_tls_session *session)
{
    if (!engine->context->is_client || !SSL_in_before(engine->ssl))
        return -EINVAL;
    ERR_clear_error();
    int is_set = SSL_set_session(engine->ssl, (SSL_SESSION *)session);
    ERR_clear_error();
    return is_set ? 0 : -ENOMEM;
}

void gs_tls_session_free(struct gs_tls_session *session)
{
    SSL_SESSION_free((SSL_SESSION *)session);
}
