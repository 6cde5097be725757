#include "tests/http2/client.h"

#include <stdio.h>
#include <stdlib.h>

static struct client_stream *stream_of(struct client *client, int32_t id)
{
    if (id < 0 || id >= CLIENT_STREAMS)
        abort();
    return &client->streams[id];
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags, void *data)
{
    (void)flags;
    struct client_stream *stream = stream_of(data, frame->hd.stream_id);
    if (stream->awaits_continue) {
        stream->awaits_continue = false;
        nghttp2_session_resume_data(session, frame->hd.stream_id);
    }
    if (name_n == 7 && !memcmp(name, ":status", 7)) {
        stream->status = (unsigned)atoi((const char *)value);
        return 0;
    }
    size_t at = strlen(stream->fields);
    snprintf(stream->fields + at, sizeof stream->fields - at, "%.*s: %.*s\n", (int)name_n, name,
             (int)value_n, value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *data)
{
    (void)session, (void)flags;
    struct client_stream *stream = stream_of(data, id);
    if (stream->body_n < sizeof stream->body - 1) {
        size_t left = sizeof stream->body - 1 - stream->body_n;
        memcpy(stream->body + stream->body_n, bytes, n < left ? n : left);
    }
    stream->body_n += n;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *data)
{
    (void)session;
    struct client_stream *stream = stream_of(data, id);
    stream->is_closed = true;
    stream->error = error;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    (void)session;
    struct client *client = data;
    client->pings += frame->hd.type == NGHTTP2_PING;
    client->goaways += frame->hd.type == NGHTTP2_GOAWAY;
    if (frame->hd.type == NGHTTP2_DATA && client->frame_count < CLIENT_FRAMES)
        client->frames[client->frame_count++] = frame->hd.stream_id;
    return 0;
}

static void check(int err)
{
    if (err < 0) {
        fprintf(stderr, "nghttp2: %s\n", nghttp2_strerror(err));
        abort();
    }
}

void client_reopen(struct client *client, const nghttp2_settings_entry *settings, size_t count)
{
    nghttp2_session_callbacks *callbacks;
    gs_http_service_set_http2(client->drive.service, gs_http2_operations());
    drive_reopen(&client->drive);
    drive_discard_output(&client->drive);
    nghttp2_session_del(client->session);
    client->taken = client->goaways = client->pings = client->frame_count = 0;
    memset(client->streams, 0, sizeof client->streams);
    check(nghttp2_session_callbacks_new(&callbacks));
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    check(nghttp2_session_client_new(&client->session, callbacks, client));
    nghttp2_session_callbacks_del(callbacks);
    check(nghttp2_submit_settings(client->session, 0, settings, count));
}

void client_start(struct client *client, const struct gs_http_options *options)
{
    client->session = NULL;
    drive_start(&client->drive, options);
    client_reopen(client, NULL, 0);
}

int client_stop(struct client *client)
{
    nghttp2_session_del(client->session);
    return drive_stop(&client->drive);
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

static int32_t request(struct client *client, const nghttp2_nv *fields, size_t count,
                       const nghttp2_data_provider *body)
{
    int32_t id = nghttp2_submit_request(client->session, NULL, fields, count, body, NULL);
    check(id);
    return id;
}

int32_t client_get(struct client *client, const char *method, const char *path, const char *name,
                   const char *value)
{
    nghttp2_nv fields[] = {field(":method", method), field(":path", path), field(":scheme", "http"),
                           field(":authority", "a"),
                           name ? field(name, value) : field("user-agent", "u")};
    return request(client, fields, 5, NULL);
}

int32_t client_send_fields(struct client *client, const char *const *fields)
{
    nghttp2_nv all[16];
    size_t count = 0;
    for (; *fields && count < sizeof all / sizeof *all; fields += 2)
        all[count++] = field(fields[0], fields[1]);
    return request(client, all, count, NULL);
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t n,
                         uint32_t *flags, nghttp2_data_source *source, void *data)
{
    (void)session;
    size_t left = (size_t)source->fd;
    if (stream_of(data, id)->awaits_continue)
        return NGHTTP2_ERR_DEFERRED;
    if (n > left)
        n = left;
    memset(bytes, 'x', n);
    source->fd = (int)(left - n);
    *flags |= left == n ? NGHTTP2_DATA_FLAG_EOF : 0;
    return (ssize_t)n;
}

static int32_t post(struct client *client, const char *path, size_t n, bool is_expecting)
{
    nghttp2_nv fields[] = {field(":method", "POST"), field(":path", path), field(":scheme", "http"),
                           field(":authority", "a"), field("expect", "100-continue")};
    nghttp2_data_provider body = {{.fd = (int)n}, read_body};
    int32_t id = request(client, fields, is_expecting ? 5 : 4, &body);
    stream_of(client, id)->awaits_continue = is_expecting;
    return id;
}

int32_t client_post(struct client *client, const char *path, size_t n)
{
    return post(client, path, n, false);
}

int32_t client_post_expecting(struct client *client, const char *path, size_t n)
{
    return post(client, path, n, true);
}

bool client_is_over(const struct client *client)
{
    return gs_http_conn_wants(&client->drive.conn) & GS_HTTP_CLOSE || client->drive.is_shut_down;
}

/* All frames at once. Returns whether there were any. */
static bool send_all(struct client *client)
{
    static char frames[1 << 16];
    const uint8_t *bytes;
    ssize_t n;
    size_t sum = 0;
    while (sum < sizeof frames / 2 && (n = nghttp2_session_mem_send(client->session, &bytes)) > 0) {
        memcpy(frames + sum, bytes, (size_t)n);
        sum += (size_t)n;
    }
    if (!sum || client_is_over(client))
        return false;
    drive_send_bytes(&client->drive, frames, sum);
    return true;
}

void client_exchange(struct client *client)
{
    struct drive *drive = &client->drive;
    do {
        size_t n = drive->output_n - client->taken;
        if (n && nghttp2_session_mem_recv(client->session, (uint8_t *)drive->output + client->taken,
                                          n) < 0)
            return; /* the session is over */
        client->taken += n;
    } while (send_all(client) || drive->output_n > client->taken);
}
