/* The sessions that a client's context keeps: a stack of a few, of which the oldest makes room. */
#include "tls/engine.h"

#include <gossamer/tls_engine.h>
#include <stdlib.h>
#include <string.h>

struct gs_tls_session *gs_tls_session_take(struct gs_tls_context *context, const char *server_name)
{
    struct gs_tls_session *found = NULL;
    struct gs_tls_sessions *sessions = &context->sessions;
    pthread_mutex_lock(&sessions->lock);
    unsigned i = sessions->count;
    while (i && strcmp(sessions->kept[i - 1].server_name, server_name) != 0)
        i--;
    if (i) {
        struct gs_tls_kept_session *kept = &sessions->kept[i - 1];
        found = kept->session;
        free(kept->server_name);
        sessions->count--;
        memmove(kept, kept + 1, (sessions->count - (i - 1)) * sizeof *kept);
    }
    pthread_mutex_unlock(&sessions->lock);
    return found;
}

void gs_tls_session_keep(struct gs_tls_context *context, const char *server_name,
                         struct gs_tls_session *session)
{
    struct gs_tls_sessions *sessions = &context->sessions;
    struct gs_tls_kept_session oldest = {strdup(server_name), session};
    if (oldest.server_name && !context->forgets_sessions) {
        struct gs_tls_kept_session newest = oldest;
        oldest = (struct gs_tls_kept_session){NULL, NULL};
        pthread_mutex_lock(&sessions->lock);
        if (sessions->count == GS_TLS_MAX_SESSIONS) {
            oldest = sessions->kept[0];
            sessions->count--;
            memmove(sessions->kept, sessions->kept + 1, sessions->count * sizeof newest);
        }
        sessions->kept[sessions->count++] = newest;
        pthread_mutex_unlock(&sessions->lock);
    }
    free(oldest.server_name);
    gs_tls_session_free(oldest.session);
}

/* Without memory, the handshake is a full one. */
struct gs_tls_session *gs_tls_session_offer(struct gs_tls_engine *engine, const char *server)
{
    struct gs_tls_session *session = gs_tls_session_take(engine->context, server);
    if (session)
        (void)!gs_tls_engine_resume(engine, session);
    return session;
}

/* A session of TLS 1.3 that was offered is used up. */
bool gs_tls_session_leave(struct gs_tls_engine *engine, const char *server,
                          const struct gs_tls_session *offered)
{
    struct gs_tls_session *session = gs_tls_engine_session(engine);
    struct gs_tls_info info;
    if (!session)
        return false;
    gs_tls_engine_info(engine, &info);
    bool is_used_up = session == offered && info.version && strcmp(info.version, "TLSv1.2") != 0;
    if (!info.is_established || info.failure || is_used_up) {
        gs_tls_session_free(session);
        return false;
    }
    gs_tls_session_keep(engine->context, server, session);
    return true;
}

void gs_tls_sessions_done(struct gs_tls_sessions *sessions)
{
    for (unsigned i = 0; i < sessions->count; i++) {
        free(sessions->kept[i].server_name);
        gs_tls_session_free(sessions->kept[i].session);
    }
    pthread_mutex_destroy(&sessions->lock);
}
