/* A session is OpenSSL's, under another name. */
#include "tls/engine.h"

#include <errno.h>
#include <openssl/err.h>

struct gs_tls_session *gs_tls_engine_session(struct gs_tls_engine *engine)
{
    SSL_SESSION *session = engine->ssl ? SSL_get0_session(engine->ssl) : engine->kept->session;
    if (!engine->context->is_client || !session || !SSL_SESSION_is_resumable(session))
        return NULL;
    return SSL_SESSION_up_ref(session) ? (struct gs_tls_session *)session : NULL;
}

int gs_tls_engine_resume(struct gs_tls_engine *engine, struct gs_tls_session *session)
{
    if (!engine->context->is_client || !engine->ssl || !SSL_in_before(engine->ssl))
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
