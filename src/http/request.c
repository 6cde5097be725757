#include "http/request.h"

#include "http/field.h"
#include "http/host.h"
#include "http/token.h"

#include <string.h>

static enum gs_http_method method_of(struct gs_http_text name)
{
    static const char *const known[] = {"POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT"};
    if (gs_http_text_is(name, "GET"))
        return GS_HTTP_GET;
    if (gs_http_text_is(name, "HEAD"))
        return GS_HTTP_HEAD;
    if (gs_http_text_is(name, "OPTIONS"))
        return GS_HTTP_OPTIONS;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (gs_http_text_is(name, known[i]))
            return GS_HTTP_KNOWN_METHOD;
    return GS_HTTP_OTHER_METHOD;
}

enum gs_http_method gs_http_request_method(struct gs_http_text begun)
{
    const char *space = begun.n ? memchr(begun.bytes, ' ', begun.n) : NULL;
    return method_of((struct gs_http_text){begun.bytes, space ? (size_t)(space - begun.bytes) : 0});
}

unsigned gs_http_request_too_long(const char *line, size_t most)
{
    return memchr(line, ' ', most) ? 414 : 501;
}

/* RFC 9112 2.3. A higher minor version is served as 1.1 (RFC 9110 2.5); another major version is
 * refused with 505. */
static unsigned parse_version(struct gs_http_text version, struct gs_http_request *request)
{
    const char *at = version.bytes;
    if (version.n != 8 || memcmp(at, "HTTP/", 5) != 0 || at[6] != '.')
        return 400;
    if (!(gs_http_classes[(uint8_t)at[5]] & GS_HTTP_DIGIT) ||
        !(gs_http_classes[(uint8_t)at[7]] & GS_HTTP_DIGIT))
        return 400;
    if (at[5] != '1')
        return 505;
    request->minor = at[7] != '0';
    request->keep_alive = request->minor;
    return 0;
}

/* RFC 9112 3.2: each form of target goes with its methods. */
static unsigned check_target(const struct gs_http_request *request, struct gs_http_text method)
{
    bool is_connect = gs_http_text_is(method, "CONNECT");
    switch (request->target.form) {
    case GS_HTTP_TARGET_ORIGIN:
        return is_connect ? 400 : 0;
    case GS_HTTP_TARGET_ABSOLUTE:
        if (is_connect)
            return 400;
        return request->target.is_secure ? 421
                                         : 0; /* RFC 9110 7.4: no such thing came through TLS */
    case GS_HTTP_TARGET_ASTERISK:
        return request->method == GS_HTTP_OPTIONS ? 0 : 400;
    case GS_HTTP_TARGET_AUTHORITY:
        return is_connect ? 0 : 400;
    }
    return 400;
}

static unsigned parse_line(struct gs_http_text line, size_t most, struct gs_http_request *request)
{
    request->line = line;
    const char *end = line.bytes + line.n;
    request->method = gs_http_request_method(line);
    if (line.n > most)
        return gs_http_request_too_long(line.bytes, most);
    const char *space = memchr(line.bytes, ' ', line.n);
    if (!space)
        return 400;
    struct gs_http_text method = {line.bytes, (size_t)(space - line.bytes)};
    if (!gs_http_is_token(method))
        return 400;
    const char *target = space + 1;
    space = memchr(target, ' ', (size_t)(end - target));
    if (!space)
        return 400;
    unsigned status =
        parse_version((struct gs_http_text){space + 1, (size_t)(end - space - 1)}, request);
    if (status)
        return status;
    const char *at = target;
    while (at < space && gs_http_is(*at, GS_HTTP_TARGET))
        at++;
    if (at < space || !gs_http_target_split((struct gs_http_text){target, (size_t)(space - target)},
                                            &request->target))
        return 400;
    return check_target(request, method);
}

/* RFC 9112 6: how long the body is. What could be understood in two ways is refused. */
static unsigned check_framing(struct gs_http_request *request)
{
    struct gs_http_text codings = request->transfer_encoding;
    if (!codings.bytes)
        return 0;
    if (request->has_length || !request->minor)
        return 400;
    struct gs_http_text coding;
    bool unknown = false;
    while (gs_http_list_next(&codings, &coding)) {
        if (request->chunked)
            return 400;
        if (gs_http_text_is_nocase(coding, "chunked"))
            request->chunked = true;
        else
            unknown = true;
    }
    if (!request->chunked)
        return 400; /* RFC 9112 6.3: where it ends can't be told */
    return unknown ? 501 : 0;
}

static void read_connection(struct gs_http_request *request)
{
    struct gs_http_text fields = request->fields, options, option;
    bool close = false;
    while (gs_http_field_next(&fields, "connection", &options)) {
        while (gs_http_tokens_next(&options, &option)) {
            close |= gs_http_text_is_nocase(option, "close");
            request->keep_alive |= gs_http_text_is_nocase(option, "keep-alive");
        }
    }
    if (close)
        request->keep_alive = false;
}

/* RFC 9110 10.1.1. */
static unsigned check_expectations(struct gs_http_request *request)
{
    struct gs_http_text fields = request->fields, list, expectation;
    while (gs_http_field_next(&fields, "expect", &list)) {
        while (gs_http_list_next(&list, &expectation)) {
            if (!gs_http_text_is_nocase(expectation, "100-continue"))
                return 417;
            request->expects_continue = true;
        }
    }
    return 0;
}

static unsigned parse_fields(const char *at, const char *end, const struct gs_http_options *options,
                             struct gs_http_request *request)
{
    unsigned fields = 0;
    while (*at != '\r') {
        const char *line_end = memchr(at, '\r', (size_t)(end - at));
        if (++fields > options->fields_most)
            return 431;
        unsigned status =
            gs_http_field_parse((struct gs_http_text){at, (size_t)(line_end - at)}, request);
        if (status)
            return status;
        at = line_end + 2;
    }
    return 0;
}

unsigned gs_http_request_parse(struct gs_http_text head, const struct gs_http_options *options,
                               struct gs_http_request *ret_request)
{
    const char *end = head.bytes + head.n;
    const char *line_end = memchr(head.bytes, '\r', head.n);
    *ret_request = (struct gs_http_request){.method = GS_HTTP_OTHER_METHOD};
    unsigned status = parse_line((struct gs_http_text){head.bytes, (size_t)(line_end - head.bytes)},
                                 options->request_line_most, ret_request);
    if (status)
        return status;
    ret_request->fields = (struct gs_http_text){line_end + 2, (size_t)(end - line_end - 2)};
    if (ret_request->fields.n > options->header_most + 2)
        return 431;
    status = parse_fields(line_end + 2, end, options, ret_request);
    if (status)
        return status;
    if (ret_request->minor && !ret_request->host.bytes)
        return 400;
    status = check_framing(ret_request);
    if (status)
        return status;
    if (ret_request->connection.bytes)
        read_connection(ret_request);
    return ret_request->expect.bytes && ret_request->minor ? check_expectations(ret_request) : 0;
}
