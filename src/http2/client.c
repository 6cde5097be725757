#include "http2/client.h"

#include <errno.h>
#include <stdlib.h>

#define CONTINUATIONS_MAX                                                                          \
    ((size_t)9 * GS_HTTP2_CLIENT_CONTINUATIONS_MAX) /* pieces of headers, too */
#define ACKS_MAX 200
#define SETTINGS_MAX 32
#define WINDOW ((uint32_t)256 << 10)
#define CONNECTION_WINDOW (16 << 20) /* it opens at once */
#define HEADER_MAX ((uint32_t)64 << 10)
#define FIELDS_MAX 256
#define BLOCK_MAX (4 * GS_HTTP2_CLIENT_FIELDS_MAX) /* of the shortest fields */

/* ---- libnghttp2's allocator: that of the module, which tests let fail ---- */

static void *allocate(size_t n, void *data)
{
    (void)data;
    return malloc(n);
}

static void release(void *memory, void *data)
{
    (void)data;
    free(memory);
}

static void *allocate_zeroed(size_t count, size_t n, void *data)
{
    (void)data;
    return calloc(count, n);
}

static void *reallocate(void *memory, size_t n, void *data)
{
    (void)data;
    return realloc(memory, n);
}

/* ---- The start and the end ---- */

static void set_defaults(struct gs_http2_client *client)
{
    if (!client->window)
        client->window = WINDOW;
    if (!client->max_header)
        client->max_header = HEADER_MAX;
    if (!client->max_fields)
        client->max_fields = FIELDS_MAX;
}

static int submit_settings(struct gs_http2_client *client)
{
    const nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, client->window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, client->max_header},
    };
    int err = nghttp2_submit_settings(client->nghttp2, NGHTTP2_FLAG_NONE, entries,
                                      sizeof entries / sizeof *entries);
    if (!err)
        err = nghttp2_session_set_local_window_size(client->nghttp2, NGHTTP2_FLAG_NONE, 0,
                                                    CONNECTION_WINDOW);
    return err;
}

static int start_nghttp2(struct gs_http2_client *client)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_mem memory = {NULL, allocate, release, allocate_zeroed, reallocate};
    int err = nghttp2_session_callbacks_new(&callbacks);
    if (!err)
        err = nghttp2_option_new(&option);
    if (!err) {
        nghttp2_option_set_max_settings(option, SETTINGS_MAX);
        nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
        nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
        nghttp2_option_set_max_send_header_block_length(option, BLOCK_MAX);
        nghttp2_option_set_no_auto_window_update(option, 1);
        gs_http2_client_set_callbacks(callbacks);
        err = nghttp2_session_client_new3(&client->nghttp2, callbacks, client, option, &memory);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return err;
}

int gs_http2_client_init(struct gs_http2_client *client)
{
    set_defaults(client);
    gs_list_init(&client->streams);
    gs_http2_client_limits_init(client);
    int err = start_nghttp2(client);
    if (!err && submit_settings(client)) {
        nghttp2_session_del(client->nghttp2);
        err = NGHTTP2_ERR_NOMEM;
    }
    return err ? -ENOMEM : 0;
}

void gs_http2_client_done(struct gs_http2_client *client)
{
    nghttp2_session_del(client->nghttp2);
    client->nghttp2 = NULL;
}

/* libnghttp2 has no stream of a request of which nothing was given out. */
void gs_http2_client_fail(struct gs_http2_client *client, int err)
{
    while (!gs_list_is_empty(&client->streams)) {
        struct gs_http2_client_stream *stream =
            gs_container_of(gs_list_first(&client->streams), struct gs_http2_client_stream, link);
        stream->is_unprocessed = !nghttp2_session_find_stream(client->nghttp2, stream->id);
        gs_http2_client_leave(client, stream);
        client->user->on_end(client, stream, stream->err ? stream->err : err);
    }
}

void gs_http2_client_ping(struct gs_http2_client *client)
{
    (void)nghttp2_submit_ping(client->nghttp2, NGHTTP2_FLAG_NONE, NULL);
}

void gs_http2_client_close(struct gs_http2_client *client)
{
    (void)nghttp2_session_terminate_session(client->nghttp2, NGHTTP2_NO_ERROR);
}

/* ---- Bytes ---- */

/* libnghttp2 must not be called again after a fatal error. */
static int fail(struct gs_http2_client *client, ssize_t error)
{
    client->err = error == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
    return client->err;
}

int gs_http2_client_receive(struct gs_http2_client *client, const void *bytes, size_t n,
                            uint64_t now_ns)
{
    client->now_ns = now_ns;
    if (client->err)
        return client->err;
    if (!gs_http2_client_look_at(client, bytes, n)) {
        (void)nghttp2_session_terminate_session(client->nghttp2, NGHTTP2_ENHANCE_YOUR_CALM);
        return -EPROTO;
    }
    ssize_t taken = nghttp2_session_mem_recv(client->nghttp2, bytes, n);
    return taken < 0 ? fail(client, taken) : 0;
}

ssize_t gs_http2_client_output(struct gs_http2_client *client, const uint8_t **ret_bytes)
{
    if (client->err)
        return client->err;
    ssize_t n = nghttp2_session_mem_send(client->nghttp2, ret_bytes);
    return n < 0 ? fail(client, n) : n;
}

/* ---- What it is ready for ---- */

bool gs_http2_client_is_over(const struct gs_http2_client *client)
{
    return client->err || (!nghttp2_session_want_read(client->nghttp2) &&
                           !nghttp2_session_want_write(client->nghttp2));
}

bool gs_http2_client_is_draining(const struct gs_http2_client *client)
{
    return client->is_abused || client->err ||
           !nghttp2_session_check_request_allowed(client->nghttp2);
}

uint32_t gs_http2_client_room(const struct gs_http2_client *client)
{
    uint32_t max = nghttp2_session_get_remote_settings(client->nghttp2,
                                                       NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    if (!client->has_settings && max > NGHTTP2_INITIAL_MAX_CONCURRENT_STREAMS)
        max = NGHTTP2_INITIAL_MAX_CONCURRENT_STREAMS;
    if (client->count >= max || gs_http2_client_is_draining(client))
        return 0;
    return max - client->count;
}
