#include "http/field.h"

#include "http/host.h"
#include "http/token.h"

#include <string.h>

/* A field that must not come twice. */
static unsigned keep_single(struct gs_http_text *field, struct gs_http_text value)
{
    if (field->bytes)
        return 400;
    *field = value;
    return 0;
}

/* A field whose first line matters, or a list, whose other lines are found again by
 * gs_http_field_next. */
static unsigned keep_first(struct gs_http_text *field, struct gs_http_text value)
{
    if (!field->bytes)
        *field = value;
    return 0;
}

static unsigned keep_length(struct gs_http_text value, struct gs_http_request *request)
{
    if (request->has_length || !gs_http_get_decimal(value, &request->content_length))
        return 400;
    request->has_length = true;
    return 0;
}

static unsigned keep_host(struct gs_http_text value, struct gs_http_request *request)
{
    if (!gs_http_host_valid(value))
        return 400;
    return keep_single(&request->host, value);
}

/* Ranges that come twice are malformed: the empty text makes them void. */
static unsigned keep_range(struct gs_http_text value, struct gs_http_request *request)
{
    if (request->range.bytes)
        value.n = 0;
    request->range = value;
    return 0;
}

static unsigned keep_of_17(struct gs_http_text name, struct gs_http_text value,
                           struct gs_http_request *request)
{
    if (gs_http_text_is_nocase(name, "transfer-encoding"))
        return keep_single(&request->transfer_encoding, value);
    if (gs_http_text_is_nocase(name, "if-modified-since"))
        return keep_first(&request->if_modified_since, value);
    return 0;
}

static unsigned keep_of_8(struct gs_http_text name, struct gs_http_text value,
                          struct gs_http_request *request)
{
    if (gs_http_text_is_nocase(name, "if-range"))
        return keep_single(&request->if_range, value);
    if (gs_http_text_is_nocase(name, "if-match"))
        return keep_first(&request->if_match, value);
    return 0;
}

static unsigned keep_of_10(struct gs_http_text name, struct gs_http_text value,
                           struct gs_http_request *request)
{
    if (gs_http_text_is_nocase(name, "connection"))
        return keep_first(&request->connection, value);
    if (gs_http_text_is_nocase(name, "user-agent"))
        return keep_first(&request->user_agent, value);
    return 0;
}

/* The length of its name tells nearly every field apart. */
static unsigned keep(struct gs_http_text name, struct gs_http_text value,
                     struct gs_http_request *request)
{
    switch (name.n) {
    case 4:
        return gs_http_text_is_nocase(name, "host") ? keep_host(value, request) : 0;
    case 5:
        return gs_http_text_is_nocase(name, "range") ? keep_range(value, request) : 0;
    case 6:
        return gs_http_text_is_nocase(name, "expect") ? keep_first(&request->expect, value) : 0;
    case 7:
        return gs_http_text_is_nocase(name, "referer") ? keep_first(&request->referer, value) : 0;
    case 8:
        return keep_of_8(name, value, request);
    case 10:
        return keep_of_10(name, value, request);
    case 13:
        return gs_http_text_is_nocase(name, "if-none-match")
                   ? keep_first(&request->if_none_match, value)
                   : 0;
    case 14:
        return gs_http_text_is_nocase(name, "content-length") ? keep_length(value, request) : 0;
    case 17:
        return keep_of_17(name, value, request);
    case 19:
        return gs_http_text_is_nocase(name, "if-unmodified-since")
                   ? keep_first(&request->if_unmodified_since, value)
                   : 0;
    default:
        return 0;
    }
}

static bool split(struct gs_http_text line, struct gs_http_text *ret_name,
                  struct gs_http_text *ret_value)
{
    const char *end = line.bytes + line.n;
    const char *colon = line.bytes;
    while (colon < end && gs_http_classes[(uint8_t)*colon] & GS_HTTP_TCHAR)
        colon++;
    if (colon == end || *colon != ':' || colon == line.bytes)
        return false;
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *ret_name = (struct gs_http_text){line.bytes, (size_t)(colon - line.bytes)};
    *ret_value = (struct gs_http_text){value, (size_t)(end - value)};
    return true;
}

unsigned gs_http_field_parse(struct gs_http_text line, struct gs_http_request *request)
{
    struct gs_http_text name, value;
    return split(line, &name, &value) ? keep(name, value, request) : 400;
}

bool gs_http_field_next(struct gs_http_text *fields, const char *name,
                        struct gs_http_text *ret_value)
{
    while (fields->n) {
        const char *line = fields->bytes;
        const char *end = memchr(line, '\r', fields->n);
        if (!end || end == line)
            break;
        *fields = (struct gs_http_text){end + 2, fields->n - (size_t)(end + 2 - line)};
        struct gs_http_text found;
        if (split((struct gs_http_text){line, (size_t)(end - line)}, &found, ret_value) &&
            gs_http_text_is_nocase(found, name))
            return true;
    }
    return false;
}
