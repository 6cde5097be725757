#include "http/request.h"

#include "http/host.h"
#include "http/token.h"

#include <string.h>

/* ---- Fields ---- */

/* Store a field that must not be repeated. */
static unsigned store_unique(struct gs_http_text *field, struct gs_http_text value)
{
    if (field->bytes)
        return 400;
    *field = value;
    return 0;
}

/* Store the first line of a field: further lines are ignored, or found with gs_http_field_next if
 * the field is a list. */
static unsigned store_first(struct gs_http_text *field, struct gs_http_text value)
{
    if (!field->bytes)
        *field = value;
    return 0;
}

static unsigned store_length(struct gs_http_text value, struct gs_http_request *request)
{
    if (request->has_length || !gs_http_get_decimal(value, &request->content_length))
        return 400;
    request->has_length = true;
    return 0;
}

static unsigned store_host(struct gs_http_text value, struct gs_http_request *request)
{
    if (!gs_http_host_is_valid(value))
        return 400;
    return store_unique(&request->host, value);
}

/* A repeated Range field is malformed: the empty value makes it ignored. */
static unsigned store_range(struct gs_http_text value, struct gs_http_request *request)
{
    if (request->range.bytes)
        value.n = 0;
    request->range = value;
    return 0;
}

/* Of most requests, this is one of two fields whose names are as long: so they are compared in two
 * words. A token has no character that differs from these only in the bit of the case. */
static unsigned store_name_of_15(struct gs_http_text name, struct gs_http_text value,
                                 struct gs_http_request *request)
{
    static const char wanted[] = "accept-encoding";
    const uint64_t lower = UINT64_C(0x2020202020202020);
    uint64_t words[2], wanted_words[2];
    memcpy(words, name.bytes, 8);
    memcpy(words + 1, name.bytes + 7, 8);
    memcpy(wanted_words, wanted, 8);
    memcpy(wanted_words + 1, wanted + 7, 8);
    if ((words[0] | lower) != wanted_words[0] || (words[1] | lower) != wanted_words[1])
        return 0;
    request->has_more_encodings = request->accept_encoding.bytes != NULL;
    return store_first(&request->accept_encoding, value);
}

static unsigned store_name_of_17(struct gs_http_text name, struct gs_http_text value,
                                 struct gs_http_request *request)
{
    if (gs_http_text_is_nocase(name, "transfer-encoding"))
        return store_unique(&request->transfer_encoding, value);
    if (gs_http_text_is_nocase(name, "if-modified-since"))
        return store_first(&request->if_modified_since, value);
    return 0;
}

static unsigned store_name_of_8(struct gs_http_text name, struct gs_http_text value,
                                struct gs_http_request *request)
{
    if (gs_http_text_is_nocase(name, "if-range"))
        return store_unique(&request->if_range, value);
    if (gs_http_text_is_nocase(name, "if-match"))
        return store_first(&request->if_match, value);
    return 0;
}

static unsigned store_name_of_10(struct gs_http_text name, struct gs_http_text value,
                                 struct gs_http_request *request)
{
    if (gs_http_text_is_nocase(name, "connection"))
        return store_first(&request->connection, value);
    if (gs_http_text_is_nocase(name, "user-agent"))
        return store_first(&request->user_agent, value);
    return 0;
}

/* The length of its name distinguishes nearly every field. */
static unsigned store(struct gs_http_text name, struct gs_http_text value,
                      struct gs_http_request *request)
{
    switch (name.n) {
    case 4:
        return gs_http_text_is_nocase(name, "host") ? store_host(value, request) : 0;
    case 5:
        return gs_http_text_is_nocase(name, "range") ? store_range(value, request) : 0;
    case 6:
        return gs_http_text_is_nocase(name, "expect") ? store_first(&request->expect, value) : 0;
    case 7:
        return gs_http_text_is_nocase(name, "referer") ? store_first(&request->referer, value) : 0;
    case 8:
        return store_name_of_8(name, value, request);
    case 10:
        return store_name_of_10(name, value, request);
    case 13:
        return gs_http_text_is_nocase(name, "if-none-match")
                   ? store_first(&request->if_none_match, value)
                   : 0;
    case 14:
        return gs_http_text_is_nocase(name, "content-length") ? store_length(value, request) : 0;
    case 15:
        return store_name_of_15(name, value, request);
    case 17:
        return store_name_of_17(name, value, request);
    case 19:
        return gs_http_text_is_nocase(name, "if-unmodified-since")
                   ? store_first(&request->if_unmodified_since, value)
                   : 0;
    default:
        return 0;
    }
}

bool gs_http_request_stores(struct gs_http_text name)
{
    static const char *const by_length[][3] = {
        [4] = {"host"},
        [5] = {"range"},
        [6] = {"expect", "accept", "origin"},
        [7] = {"referer"},
        [8] = {"if-range", "if-match"},
        [9] = {"forwarded"},
        [10] = {"connection", "user-agent"},
        [13] = {"if-none-match", "authorization"},
        [14] = {"content-length"},
        [15] = {"accept-encoding", "x-forwarded-for"},
        [17] = {"transfer-encoding", "if-modified-since"},
        [19] = {"if-unmodified-since"},
    };
    if (name.n >= sizeof by_length / sizeof *by_length)
        return false;
    for (int i = 0; i < 3; i++) {
        const char *known = by_length[name.n][i];
        if (known && !memcmp(name.bytes, known, name.n))
            return true;
    }
    return false;
}

static bool split_field(struct gs_http_text line, struct gs_http_text *ret_name,
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
    return split_field(line, &name, &value) ? store(name, value, request) : 400;
}

bool gs_http_field_next_any(struct gs_http_text *fields, struct gs_http_text *ret_name,
                            struct gs_http_text *ret_value)
{
    while (fields->n) {
        const char *line = fields->bytes;
        const char *end = memchr(line, '\r', fields->n);
        if (!end || end == line)
            break;
        *fields = (struct gs_http_text){end + 2, fields->n - (size_t)(end + 2 - line)};
        if (split_field((struct gs_http_text){line, (size_t)(end - line)}, ret_name, ret_value))
            return true;
    }
    return false;
}

bool gs_http_field_next(struct gs_http_text *fields, const char *name,
                        struct gs_http_text *ret_value)
{
    struct gs_http_text found;
    while (gs_http_field_next_any(fields, &found, ret_value))
        if (gs_http_text_is_nocase(found, name))
            return true;
    return false;
}

/* ---- Requests ---- */

static enum gs_http_method find_method(struct gs_http_text name)
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

enum gs_http_method gs_http_request_method(struct gs_http_text input)
{
    const char *space = input.n ? memchr(input.bytes, ' ', input.n) : NULL;
    return find_method(
        (struct gs_http_text){input.bytes, space ? (size_t)(space - input.bytes) : 0});
}

unsigned gs_http_request_too_long(const char *line, size_t max)
{
    return memchr(line, ' ', max) ? 414 : 501;
}

unsigned gs_http_request_check_size(const char *bytes, size_t n,
                                    const struct gs_http_options *options)
{
    if (n <= options->max_request_line)
        return 0;
    const char *line_end = memchr(bytes, '\r', options->max_request_line + 1);
    if (!line_end)
        return gs_http_request_too_long(bytes, options->max_request_line);
    size_t rest = n - (size_t)(line_end - bytes);
    return rest > 4 && rest - 4 > options->max_header ? 431 : 0;
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

/* RFC 9112 3.2: each form of target is valid for certain methods. */
static unsigned check_target(const struct gs_http_request *request, struct gs_http_text method)
{
    bool is_connect = gs_http_text_is(method, "CONNECT");
    switch (request->target.form) {
    case GS_HTTP_TARGET_ORIGIN:
        return is_connect ? 400 : 0;
    case GS_HTTP_TARGET_ABSOLUTE:
        if (is_connect)
            return 400;
        /* RFC 9110 7.4: an https resource requires TLS, which is not supported. */
        return request->target.is_secure ? 421 : 0;
    case GS_HTTP_TARGET_ASTERISK:
        return request->method == GS_HTTP_OPTIONS ? 0 : 400;
    case GS_HTTP_TARGET_AUTHORITY:
        return is_connect ? 0 : 400;
    }
    return 400;
}

struct gs_http_text gs_http_request_line(struct gs_http_text input)
{
    size_t n = 0;
    while (n < input.n && input.bytes[n] != '\r' && input.bytes[n] != '\n')
        n++;
    return n ? (struct gs_http_text){input.bytes, n} : (struct gs_http_text){NULL, 0};
}

static bool has_target_characters(struct gs_http_text text)
{
    const char *at = text.bytes, *end = at + text.n;
    for (;;) {
        while (at < end && gs_http_is(*at, GS_HTTP_TARGET))
            at++;
        if (at == end)
            return true;
        size_t n = gs_http_utf8_length((struct gs_http_text){at, (size_t)(end - at)});
        if (!n)
            return false;
        at += n;
    }
}

static unsigned parse_line(struct gs_http_text line, size_t max, struct gs_http_request *request)
{
    request->line = line;
    const char *end = line.bytes + line.n;
    request->method = gs_http_request_method(line);
    if (line.n > max)
        return gs_http_request_too_long(line.bytes, max);
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
    struct gs_http_text text = {target, (size_t)(space - target)};
    if (!has_target_characters(text) || !gs_http_target_split(text, &request->target))
        return 400;
    return check_target(request, method);
}

/* RFC 9112 6: the length of the body. Ambiguous framing is refused. */
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
        return 400; /* RFC 9112 6.3: the end of the body is unknown */
    return unknown ? 501 : 0;
}

static void parse_connection(struct gs_http_request *request)
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

/* RFC 9110 10.1.1 */
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
        if (++fields > options->max_fields)
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
    *ret_request = (struct gs_http_request){
        .method = GS_HTTP_OTHER_METHOD,
        .refusal = GS_HTTP_REFUSED_LINE,
    };
    unsigned status = parse_line((struct gs_http_text){head.bytes, (size_t)(line_end - head.bytes)},
                                 options->max_request_line, ret_request);
    if (status)
        return status;
    ret_request->fields = (struct gs_http_text){line_end + 2, (size_t)(end - line_end - 2)};
    if (ret_request->fields.n - 2 > options->max_header)
        return 431;
    ret_request->refusal = GS_HTTP_REFUSED_FIELD;
    status = parse_fields(line_end + 2, end, options, ret_request);
    if (status)
        return status;
    ret_request->refusal = GS_HTTP_REFUSED_HOST;
    if (ret_request->minor && !ret_request->host.bytes)
        return 400;
    ret_request->refusal = GS_HTTP_REFUSED_FRAMING;
    status = check_framing(ret_request);
    if (status)
        return status;
    if (ret_request->connection.bytes)
        parse_connection(ret_request);
    return ret_request->expect.bytes && ret_request->minor ? check_expectations(ret_request) : 0;
}
