#include "http/response_parser.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum { STATUS, FIELDS, SIZE, CHUNK, CHUNK_END, TRAILER, LENGTH, UNTIL_CLOSE, DONE };

/* The field of the last line, which the next line may continue. */
enum { OTHER_FIELD, LENGTH_FIELD, CODING_FIELD, CONNECTION_FIELD };

void gs_http_response_parser_init(struct gs_http_response_parser *parser, bool is_head)
{
    memset(parser, 0, offsetof(struct gs_http_response_parser, line));
    parser->is_head = is_head;
}

bool gs_http_response_parser_is_done(const struct gs_http_response_parser *parser)
{
    return parser->state == DONE;
}

bool gs_http_response_parser_has_started(const struct gs_http_response_parser *parser)
{
    return parser->state != STATUS || parser->header_bytes;
}

int gs_http_response_parser_end(struct gs_http_response_parser *parser)
{
    if (parser->state == UNTIL_CLOSE)
        parser->state = DONE;
    return parser->state == DONE ? 0 : -ECONNABORTED;
}

static int refuse(struct gs_http_response_parser *parser, const char *reason)
{
    parser->reason = reason;
    return -EPROTO;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* ---- Lines: each function parses one without its line end, and returns 0 or -EPROTO ---- */

static int parse_status(struct gs_http_response_parser *parser, const char *line, size_t n)
{
    static const char reason[] = "not a status line of HTTP/1.0 or 1.1";
    if (n < 12 || memcmp(line, "HTTP/1.", 7) != 0 || !is_digit(line[7]) || line[8] != ' ')
        return refuse(parser, reason);
    const char *code = line + 9;
    if (!is_digit(code[0]) || !is_digit(code[1]) || !is_digit(code[2]))
        return refuse(parser, reason);
    if (n > 12 && line[12] != ' ')
        return refuse(parser, reason);
    parser->status = (uint16_t)((code[0] - '0') * 100 + (code[1] - '0') * 10 + (code[2] - '0'));
    if (parser->status < 100 || parser->status == 101)
        return refuse(parser, "unexpected status 101, or one below 100");
    parser->is_http_1_0 = line[7] == '0';
    parser->state = FIELDS;
    return 0;
}

/* Get the next element of a comma-separated list, without the white space around it. Returns false
 * at the end. */
static bool next_element(const char **at, const char *end, const char **ret_element, size_t *ret_n)
{
    while (*at < end && (is_space(**at) || **at == ','))
        (*at)++;
    if (*at == end)
        return false;
    const char *stop = memchr(*at, ',', (size_t)(end - *at));
    const char *last = stop ? stop : end;
    *ret_element = *at;
    *at = last;
    while (is_space(last[-1]))
        last--;
    *ret_n = (size_t)(last - *ret_element);
    return true;
}

static bool is_blank(const char *text, size_t n)
{
    while (n && is_space(text[n - 1]))
        n--;
    return !n;
}

static bool equals_nocase(const char *element, size_t n, const char *expected)
{
    return n == strlen(expected) && strncasecmp(element, expected, n) == 0;
}

/* An element must consist of digits; all elements of all fields must be equal. */
static int parse_length_element(struct gs_http_response_parser *parser, const char *element,
                                size_t n)
{
    uint64_t length = 0;
    if (n > 18)
        return refuse(parser, "Content-Length is not a number, or too large");
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(element[i]))
            return refuse(parser, "Content-Length is not a number, or too large");
        length = length * 10 + (uint64_t)(element[i] - '0');
    }
    if (parser->has_length && parser->left != length)
        return refuse(parser, "two values of Content-Length differ");
    parser->has_length = true;
    parser->left = length;
    return 0;
}

static void parse_connection_element(struct gs_http_response_parser *parser, const char *element,
                                     size_t n)
{
    parser->has_close |= equals_nocase(element, n, "close");
    parser->has_keep_alive |= equals_nocase(element, n, "keep-alive");
}

/* No coding may follow chunked. With any other last coding the body extends to the end of the
 * connection. Old servers send "identity", which stands for none. */
static int parse_coding_element(struct gs_http_response_parser *parser, const char *element,
                                size_t n)
{
    if (parser->is_chunked)
        return refuse(parser, "a transfer coding follows chunked");
    parser->is_chunked = equals_nocase(element, n, "chunked");
    parser->has_coding |= !equals_nocase(element, n, "identity");
    parser->has_coding_element = true;
    return 0;
}

/* Parse the part of the current field's value that one line has. */
static int parse_value(struct gs_http_response_parser *parser, const char *value, size_t n)
{
    const char *at = value, *element;
    size_t length;
    int err = 0;
    if (parser->field != OTHER_FIELD && parser->is_truncated)
        return refuse(parser, "the line of a field that frames the body is too long");
    while (!err && next_element(&at, value + n, &element, &length)) {
        if (parser->field == LENGTH_FIELD)
            err = parse_length_element(parser, element, length);
        else if (parser->field == CODING_FIELD)
            err = parse_coding_element(parser, element, length);
        else
            parse_connection_element(parser, element, length);
    }
    return err;
}

static int field_of(const char *name, size_t n)
{
    /* Most names have none of these lengths. */
    if (n != 14 && n != 17 && n != 10)
        return OTHER_FIELD;
    return equals_nocase(name, n, "content-length")      ? LENGTH_FIELD
           : equals_nocase(name, n, "transfer-encoding") ? CODING_FIELD
           : equals_nocase(name, n, "connection")        ? CONNECTION_FIELD
                                                         : OTHER_FIELD;
}

/* A line that begins with white space continues the value of the field before it (RFC 9112, 5.2).
 * A number cannot be continued. */
static int parse_folded(struct gs_http_response_parser *parser, const char *line, size_t n)
{
    if (parser->field == OTHER_FIELD)
        return 0;
    if (parser->field == LENGTH_FIELD && parser->has_length && !is_blank(line, n))
        return refuse(parser, "Content-Length is not a number, or too large");
    return parse_value(parser, line, n);
}

/* White space before the colon is ignored, as most clients do. */
static int parse_field(struct gs_http_response_parser *parser, const char *line, size_t n)
{
    if (is_space(line[0]))
        return parse_folded(parser, line, n);
    parser->field = OTHER_FIELD;
    const char *colon = memchr(line, ':', n);
    if (!colon)
        return parser->is_truncated ? 0 : refuse(parser, "a field without a colon");
    size_t name_length = (size_t)(colon - line);
    while (name_length && is_space(line[name_length - 1]))
        name_length--;
    if (!name_length)
        return refuse(parser, "a field without a name");
    parser->field = (uint8_t)field_of(line, name_length);
    parser->has_length_field |= parser->field == LENGTH_FIELD;
    parser->has_coding_field |= parser->field == CODING_FIELD;
    if (parser->field == OTHER_FIELD)
        return 0;
    return parse_value(parser, colon + 1, (size_t)(line + n - colon - 1));
}

static void skip_interim_response(struct gs_http_response_parser *parser)
{
    uint32_t header_bytes = parser->header_bytes;
    gs_http_response_parser_init(parser, parser->is_head);
    parser->header_bytes = parser->interim_bytes = header_bytes;
}

static int end_fields(struct gs_http_response_parser *parser)
{
    if (parser->status < 200) {
        skip_interim_response(parser);
        return 0;
    }
    if (parser->has_length_field && !parser->has_length)
        return refuse(parser, "Content-Length is empty");
    if (parser->has_coding_field && !parser->has_coding_element)
        return refuse(parser, "Transfer-Encoding is empty");
    /* A coding overrides a length. The next response cannot be trusted then, nor can one of a
     * server that knows no codings. */
    bool is_doubtful = parser->has_coding && (parser->has_length || parser->is_http_1_0);
    parser->has_length &= !parser->has_coding;
    bool has_body = !parser->is_head && parser->status != 204 && parser->status != 304;
    bool is_framed = !has_body || parser->is_chunked || parser->has_length;
    parser->keep_alive = is_framed && !is_doubtful && !parser->has_close &&
                         (!parser->is_http_1_0 || parser->has_keep_alive);
    if (!is_framed)
        parser->state = UNTIL_CLOSE;
    else if (has_body && parser->is_chunked)
        parser->state = SIZE;
    else
        parser->state = has_body && parser->left ? LENGTH : DONE;
    parser->header_bytes = 0;
    return 0;
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse_chunk_size(struct gs_http_response_parser *parser, const char *line, size_t n)
{
    uint64_t size = 0;
    size_t i = 0;
    for (; i < n && hex_value(line[i]) >= 0; i++) {
        if (size >> 58)
            return refuse(parser, "the size of a chunk is too large");
        size = size << 4 | (uint64_t)hex_value(line[i]);
    }
    if (!i || (i < n && line[i] != ';' && !is_space(line[i])))
        return refuse(parser, "the size of a chunk is not a hexadecimal number");
    parser->left = size;
    parser->state = size ? CHUNK : TRAILER;
    parser->header_bytes = 0;
    return 0;
}

static int parse_line(struct gs_http_response_parser *parser, const char *line, size_t n)
{
    switch (parser->state) {
    case STATUS:
        return parse_status(parser, line, n);
    case FIELDS:
        return n ? parse_field(parser, line, n) : end_fields(parser);
    case SIZE:
        return parse_chunk_size(parser, line, n);
    case CHUNK_END:
        parser->state = SIZE;
        return n ? refuse(parser, "a chunk is longer than its size") : 0;
    default: /* TRAILER: its fields are ignored */
        parser->state = n ? TRAILER : DONE;
        return 0;
    }
}

/* ---- Bytes ---- */

static void buffer_line_start(struct gs_http_response_parser *parser, const char *bytes, size_t n)
{
    size_t room = sizeof parser->line - parser->line_length;
    parser->is_truncated |= n > room;
    n = n > room ? room : n;
    memcpy(parser->line + parser->line_length, bytes, n);
    parser->line_length += (uint8_t)n;
}

/* Parse one line, or buffer the beginning of one. */
static ssize_t feed_line(struct gs_http_response_parser *parser, const char *bytes, size_t n)
{
    const char *newline = memchr(bytes, '\n', n), *line = bytes;
    size_t used = newline ? (size_t)(newline + 1 - bytes) : n, length = used - 1;
    if (used > GS_HTTP_RESPONSE_HEADER_MAX - parser->header_bytes) {
        parser->reason = "the head, or a line between chunks, is too long";
        return -EMSGSIZE;
    }
    parser->header_bytes += (uint32_t)used;
    if (!newline || parser->line_length) {
        buffer_line_start(parser, bytes, newline ? length : n);
        if (!newline)
            return (ssize_t)n;
        line = parser->line;
        length = parser->line_length;
    } else if (length > sizeof parser->line) {
        parser->is_truncated = true; /* as if it had been split */
        length = sizeof parser->line;
    }
    if (!parser->is_truncated && length && line[length - 1] == '\r')
        length--;
    int err = parse_line(parser, line, length);
    parser->line_length = 0;
    parser->is_truncated = false;
    return err ? err : (ssize_t)used;
}

static size_t feed_body(struct gs_http_response_parser *parser, size_t n)
{
    if (parser->state == UNTIL_CLOSE) {
        parser->body_bytes += n;
        return n;
    }
    size_t used = n < parser->left ? n : (size_t)parser->left;
    parser->body_bytes += used;
    parser->left -= used;
    if (!parser->left)
        parser->state = parser->state == CHUNK ? CHUNK_END : DONE;
    return used;
}

bool gs_http_response_parser_has_head(const struct gs_http_response_parser *parser)
{
    return parser->state > FIELDS;
}

bool gs_http_response_parser_length(const struct gs_http_response_parser *parser,
                                    uint64_t *ret_length)
{
    if (parser->has_length)
        *ret_length = parser->left;
    return parser->has_length;
}

ssize_t gs_http_response_parser_next(struct gs_http_response_parser *parser, const char *bytes,
                                     size_t n, struct gs_http_text *ret_data)
{
    bool had_head = gs_http_response_parser_has_head(parser);
    size_t used = 0;
    *ret_data = (struct gs_http_text){0};
    while (used < n && !ret_data->n && parser->state != DONE &&
           gs_http_response_parser_has_head(parser) == had_head) {
        bool is_body =
            parser->state == LENGTH || parser->state == CHUNK || parser->state == UNTIL_CLOSE;
        ssize_t step = is_body ? (ssize_t)feed_body(parser, n - used)
                               : feed_line(parser, bytes + used, n - used);
        if (step < 0)
            return step;
        if (is_body)
            *ret_data = (struct gs_http_text){bytes + used, (size_t)step};
        used += (size_t)step;
    }
    return (ssize_t)used;
}

ssize_t gs_http_response_parser_feed(struct gs_http_response_parser *parser, const char *bytes,
                                     size_t n)
{
    struct gs_http_text data;
    size_t used = 0;
    while (used < n && parser->state != DONE) {
        ssize_t step = gs_http_response_parser_next(parser, bytes + used, n - used, &data);
        if (step < 0)
            return step;
        used += (size_t)step;
    }
    return (ssize_t)used;
}
