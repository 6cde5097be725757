/* A session of libnghttp2, for any use of its streams. */
#include "http2/streams.h"

#include <errno.h>
#include <stdlib.h>

#define ACKS_MAX 200
#define SETTINGS_MAX 32
#define TABLE_SIZE 4096                         /* of the peer's fields */
#define RESPONSE_TABLE_SIZE 1024                /* of ours */
#define RESPONSE_HEADER_MAX ((size_t)256 << 10) /* more than 64 KiB of the shortest fields take */

void gs_http2_terminate(struct gs_http2_session *session, uint32_t error)
{
    if (!session->is_ending)
        (void)nghttp2_session_terminate_session(session->nghttp2, error);
    session->is_ending = session->is_last = true;
}

void gs_http2_accept_no_more(struct gs_http2_session *session)
{
    if (session->is_last)
        return;
    session->is_last = true;
    (void)nghttp2_submit_goaway(session->nghttp2, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(session->nghttp2),
                                NGHTTP2_NO_ERROR, NULL, 0);
}

void gs_http2_drain(struct gs_http2_session *session)
{
    if (session->base.is_draining)
        return;
    session->base.is_draining = true;
    (void)nghttp2_submit_shutdown_notice(session->nghttp2);
    (void)nghttp2_submit_ping(session->nghttp2, NGHTTP2_FLAG_NONE, NULL);
}

bool gs_http2_is_over(const struct gs_http2_session *session)
{
    return !nghttp2_session_want_read(session->nghttp2) &&
           !nghttp2_session_want_write(session->nghttp2);
}

/* While a field is incomplete, it is not limited by its length. */
static size_t allocated_max(const struct gs_http2_session *session)
{
    size_t max = session->header_block == GS_HTTP2_PASSING ? GS_HTTP2_KEPT_MAX : GS_HTTP2_ABUSE_MAX;
    return max + session->memory_more;
}

size_t gs_http2_take(struct gs_http2_session *session, const char *bytes, size_t n)
{
    size_t part = gs_http2_look_at(session, bytes, n);
    struct gs_http_text now = {bytes, part};
    if (session->is_ending)
        return part;
    if (!gs_http2_gather(session, &now))
        return 0;
    if (!now.n)
        return part;
    char *gathered = gs_http2_take_gathered(session);
    ssize_t taken = nghttp2_session_mem_recv(session->nghttp2, (const uint8_t *)now.bytes, now.n);
    free(gathered);
    if (taken == NGHTTP2_ERR_BAD_CLIENT_MAGIC || taken == NGHTTP2_ERR_NOMEM)
        return 0;
    if (taken < 0)
        gs_http2_end_abuse(session);
    else if (session->allocated > allocated_max(session))
        gs_http2_end_overload(session);
    return part;
}

/* ---- The start and the end ---- */

static int submit_settings(struct gs_http2_session *session)
{
    const struct gs_http_options *options = session->options;
    const nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, TABLE_SIZE},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, session->streams_max},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
         (uint32_t)(options->max_request_line + options->max_header)},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1}, /* the last one */
    };
    size_t count = sizeof entries / sizeof *entries - !session->has_websocket;
    return nghttp2_submit_settings(session->nghttp2, NGHTTP2_FLAG_NONE, entries, count);
}

static int set_options(const struct gs_http2_session *session, nghttp2_option *option)
{
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, RESPONSE_TABLE_SIZE);
    nghttp2_option_set_max_send_header_block_length(option, RESPONSE_HEADER_MAX);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
    nghttp2_option_set_max_continuations(option, GS_HTTP2_CONTINUATIONS_MAX);
    nghttp2_option_set_builtin_recv_extension_type(option, NGHTTP2_PRIORITY_UPDATE);
    /* limits.c counts them, by the clock that it is given. */
    nghttp2_option_set_stream_reset_rate_limit(option, UINT32_MAX, UINT32_MAX);
    nghttp2_option_set_no_auto_window_update(option, session->is_consumed_by_user);
    return 0;
}

static int start_nghttp2(struct gs_http2_session *session)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int err = nghttp2_session_callbacks_new(&callbacks);
    if (!err)
        err = nghttp2_option_new(&option);
    if (!err)
        err = set_options(session, option);
    if (!err) {
        gs_http2_set_callbacks(callbacks);
        err = nghttp2_session_server_new3(&session->nghttp2, callbacks, session, option,
                                          &session->memory);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return err;
}

int gs_http2_session_init(struct gs_http2_session *session)
{
    session->last = &session->first;
    session->is_starting = true;
    gs_http2_memory_init(session);
    gs_http2_limits_init(session);
    gs_http2_frames_init(session);
    int err = start_nghttp2(session);
    session->is_starting = false;
    if (!err && submit_settings(session)) {
        nghttp2_session_del(session->nghttp2);
        err = NGHTTP2_ERR_NOMEM;
    }
    return err ? -ENOMEM : 0;
}

void gs_http2_session_done(struct gs_http2_session *session)
{
    while (session->first)
        gs_http2_free_stream(session, session->first);
    gs_http2_drop_header(session);
    free(gs_http2_take_gathered(session));
    nghttp2_session_del(session->nghttp2);
    session->nghttp2 = NULL;
}
