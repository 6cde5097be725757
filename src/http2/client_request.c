/* The requests of a client: from lines as in HTTP/1.1 to fields, and the bodies. */
#include "http2/client.h"

#include <errno.h>
#include <stdlib.h>

#define PSEUDO_FIELDS 4

/* ---- Fields ---- */

/* libnghttp2 copies names and values, and the names in lower case. */
static nghttp2_nv field(struct gs_http_text name, struct gs_http_text value)
{
    return (nghttp2_nv){(uint8_t *)name.bytes, (uint8_t *)value.bytes, name.n, value.n,
                        NGHTTP2_NV_FLAG_NONE};
}

static size_t count_lines(struct gs_http_text lines)
{
    size_t count = 0;
    for (size_t i = 0; i < lines.n; i++)
        count += lines.bytes[i] == '\n';
    return count;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The space around a value is no part of it; HTTP/2 forbids it (RFC 9113, 8.2.1). */
static struct gs_http_text trim(const char *start, const char *end)
{
    while (start < end && is_blank(*start))
        start++;
    while (start < end && is_blank(end[-1]))
        end--;
    return (struct gs_http_text){start, (size_t)(end - start)};
}

/* What describes a connection of HTTP/1 (RFC 9113, 8.2.2), and Host, which is :authority. */
static bool is_forbidden(struct gs_http_text name, struct gs_http_text value)
{
    static const char *const names[] = {"connection",        "host",    "keep-alive",
                                        "proxy-connection",  "upgrade", "http2-settings",
                                        "transfer-encoding", "te"};
    if (gs_http_text_is_nocase(name, "te") && gs_http_text_is_nocase(value, "trailers"))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (gs_http_text_is_nocase(name, names[i]))
            return true;
    return false;
}

/* Returns the number of fields. */
static size_t split_lines(struct gs_http_text lines, nghttp2_nv *ret_fields)
{
    size_t count = 0;
    const char *at = lines.bytes, *end = lines.n ? at + lines.n : at;
    while (at < end) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        const char *line_end = colon ? memchr(colon, '\r', (size_t)(end - colon)) : NULL;
        if (!line_end)
            break;
        struct gs_http_text name = {at, (size_t)(colon - at)}, value = trim(colon + 1, line_end);
        if (!is_forbidden(name, value))
            ret_fields[count++] = field(name, value);
        at = line_end + 2;
    }
    return count;
}

static size_t make_fields(const struct gs_http2_client_request *request, nghttp2_nv *ret_fields)
{
    ret_fields[0] = field(GS_HTTP_TEXT(":method"), request->method);
    ret_fields[1] = field(GS_HTTP_TEXT(":scheme"), request->scheme);
    ret_fields[2] = field(GS_HTTP_TEXT(":authority"), request->authority);
    ret_fields[3] = field(GS_HTTP_TEXT(":path"), request->path);
    return PSEUDO_FIELDS + split_lines(request->fields, ret_fields + PSEUDO_FIELDS);
}

static size_t size_of(const struct gs_http2_client_request *request)
{
    return request->method.n + request->scheme.n + request->authority.n + request->path.n +
           request->fields.n;
}

/* ---- Bodies ---- */

/* libnghttp2 calls it. A stream that was canceled has no data. */
static ssize_t read_body(nghttp2_session *nghttp2, int32_t id, uint8_t *bytes, size_t n,
                         uint32_t *flags, nghttp2_data_source *source, void *data)
{
    (void)source;
    struct gs_http2_client *client = data;
    struct gs_http2_client_stream *stream = nghttp2_session_get_stream_user_data(nghttp2, id);
    bool is_end = false;
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    ssize_t result = client->user->on_body_wanted(client, stream, bytes, n, &is_end);
    if (result == -EAGAIN)
        return NGHTTP2_ERR_DEFERRED;
    if (result < 0) {
        stream->err = (int)result;
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    gs_http2_client_note_work(client, (uint64_t)result);
    if (is_end)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return result;
}

int gs_http2_client_request(struct gs_http2_client *client, struct gs_http2_client_stream *stream,
                            const struct gs_http2_client_request *request)
{
    nghttp2_data_provider body = {.read_callback = read_body};
    size_t count = PSEUDO_FIELDS + count_lines(request->fields);
    if (size_of(request) > GS_HTTP2_CLIENT_FIELDS_MAX)
        return -EMSGSIZE;
    if (gs_http2_client_is_draining(client))
        return -ESHUTDOWN;
    nghttp2_nv *fields = malloc(count * sizeof *fields);
    if (!fields)
        return -ENOMEM;
    count = make_fields(request, fields);
    stream->id = nghttp2_submit_request(client->nghttp2, NULL, fields, count,
                                        request->has_body ? &body : NULL, stream);
    free(fields);
    if (stream->id < 0)
        return -ENOMEM;
    gs_list_append(&client->streams, &stream->link);
    client->count++;
    return 0;
}

/* An error other than that of memory means that it was not deferred, or is closed already. */
int gs_http2_client_resume(struct gs_http2_client *client, struct gs_http2_client_stream *stream)
{
    int err = nghttp2_session_resume_data(client->nghttp2, stream->id);
    return err == NGHTTP2_ERR_NOMEM ? -ENOMEM : 0;
}

int gs_http2_client_consume(struct gs_http2_client *client, struct gs_http2_client_stream *stream,
                            size_t n)
{
    if (!gs_list_is_linked(&stream->link))
        return 0;
    int err = nghttp2_session_consume_stream(client->nghttp2, stream->id, n);
    return err == NGHTTP2_ERR_NOMEM ? -ENOMEM : 0;
}

int gs_http2_client_cancel(struct gs_http2_client *client, struct gs_http2_client_stream *stream)
{
    gs_http2_client_leave(client, stream);
    int err =
        nghttp2_submit_rst_stream(client->nghttp2, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
    return err ? -ENOMEM : 0;
}
