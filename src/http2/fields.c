/* The fields of responses, from heads as HTTP/1.1 has them. */
#include "http2/session.h"

#include <assert.h>
#include <stdlib.h>

static nghttp2_nv field_of(const char *name, size_t name_n, const char *value, size_t value_n)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, name_n, value_n, NGHTTP2_NV_FLAG_NONE};
}

static const char *find(const char *at, char wanted, const char *end)
{
    return memchr(at, wanted, (size_t)(end - at));
}

/* The space around a value is no part of it; HTTP/2 forbids it (RFC 9113, 8.2.1). */
static nghttp2_nv value_field(struct gs_http_text name, const char *value, const char *end)
{
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (value < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return field_of(name.bytes, name.n, value, (size_t)(end - value));
}

size_t gs_http2_split_head(struct gs_http_text head, struct gs_http2_fields *ret_fields)
{
    const char *at = head.bytes + sizeof "HTTP/1.1 200" - 1, *end = head.bytes + head.n;
    nghttp2_nv *all = ret_fields->all;
    size_t count = 0;
    all[count++] = field_of(":status", 7, at - 3, 3);
    at = find(at, '\n', end) + 1;
    while (*at != '\r') {
        const char *colon = find(at, ':', end), *line_end = find(colon, '\r', end);
        struct gs_http_text name = {at, (size_t)(colon - at)};
        if (!gs_http_text_is(name, "Connection")) {
            assert(count < GS_HTTP2_FIELDS_MAX);
            all[count++] = value_field(name, colon + 1, line_end);
        }
        at = line_end + 2;
    }
    ret_fields->count = count;
    return (size_t)(at + 2 - head.bytes);
}

/* ---- Pages ---- */

/* libnghttp2 need not copy these names. */
static void share_name(nghttp2_nv *field)
{
    static const char *const names[] = {
        ":status",        "server",        "date", "content-type", "content-encoding",
        "content-length", "last-modified", "etag", "vary",         "accept-ranges"};
    struct gs_http_text name = {(const char *)field->name, field->namelen};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!gs_http_text_is_nocase(name, names[i]))
            continue;
        field->name = (uint8_t *)names[i];
        field->flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
    }
}

/* What depends on the time is not the head's: the Date, which may be of any time there, and a time
 * of modification in the future (RFC 9110, 8.8.2.1). */
static void make(const struct gs_http_page *page, const char *date, bool is_in_future,
                 struct gs_http2_fields *ret_fields)
{
    const char *modified_at = page->validators.bytes + GS_HTTP_PAGE_LAST_MODIFIED;
    gs_http2_split_head(page->head, ret_fields);
    for (size_t i = 0; i < ret_fields->count; i++) {
        nghttp2_nv *field = &ret_fields->all[i];
        const char *value = (const char *)field->value;
        share_name(field);
        struct gs_http_text name = {(const char *)field->name, field->namelen};
        if (!gs_http_text_is(name, "date") && !(is_in_future && value == modified_at))
            continue;
        field->value = (uint8_t *)date;
        field->valuelen = GS_HTTP_DATE_LENGTH;
    }
}

const struct gs_http2_fields *gs_http2_page_fields(struct gs_http_service *service,
                                                   struct gs_http_page *page, bool is_in_future,
                                                   struct gs_http2_fields *space)
{
    if (page->http2_fields && !is_in_future)
        return page->http2_fields;
    make(page, service->date, is_in_future, space);
    if (is_in_future)
        return space;
    size_t n = offsetof(struct gs_http2_fields, all) + space->count * sizeof *space->all;
    struct gs_http2_fields *fields = malloc(n);
    if (!fields)
        return space;
    memcpy(fields, space, n);
    gs_http_cache_set_fields(&service->cache, page, fields, n);
    return fields;
}
