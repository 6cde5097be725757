#include "http/response.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum { STATUS, FIELDS, SIZE, CHUNK, CHUNK_END, TRAILER, LENGTH, UNTIL_CLOSE, DONE };

void gs_response_init(struct gs_response *response, bool is_head)
{
    memset(response, 0, offsetof(struct gs_response, carry));
    response->is_head = is_head;
}

bool gs_response_is_done(const struct gs_response *response)
{
    return response->state == DONE;
}

bool gs_response_has_begun(const struct gs_response *response)
{
    return response->state != STATUS || response->header_bytes;
}

int gs_response_end(struct gs_response *response)
{
    if (response->state == UNTIL_CLOSE)
        response->state = DONE;
    return response->state == DONE ? 0 : -ECONNABORTED;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* ---- Lines: each reader gets one without its end, and returns 0 or -EPROTO ---- */

static int read_status(struct gs_response *response, const char *line, size_t n)
{
    if (n < 12 || memcmp(line, "HTTP/1.", 7) != 0 || !is_digit(line[7]) || line[8] != ' ')
        return -EPROTO;
    const char *code = line + 9;
    if (!is_digit(code[0]) || !is_digit(code[1]) || !is_digit(code[2]))
        return -EPROTO;
    if (n > 12 && line[12] != ' ')
        return -EPROTO;
    response->status = (uint16_t)((code[0] - '0') * 100 + (code[1] - '0') * 10 + (code[2] - '0'));
    if (response->status < 100 || response->status == 101)
        return -EPROTO;
    response->is_http_1_0 = line[7] == '0';
    response->state = FIELDS;
    return 0;
}

/* Digits only, and the same number if there are several such fields. */
static int read_length(struct gs_response *response, const char *value, size_t n)
{
    uint64_t length = 0;
    if (!n || n > 18)
        return -EPROTO;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(value[i]))
            return -EPROTO;
        length = length * 10 + (uint64_t)(value[i] - '0');
    }
    if (response->has_length && response->left != length)
        return -EPROTO;
    response->has_length = true;
    response->left = length;
    return 0;
}

/* The next word of a list separated by commas, without the blanks around it; false at the end. */
static bool next_word(const char **at, const char *end, const char **ret_word, size_t *ret_n)
{
    while (*at < end && (is_blank(**at) || **at == ','))
        (*at)++;
    if (*at == end)
        return false;
    const char *stop = memchr(*at, ',', (size_t)(end - *at));
    const char *last = stop ? stop : end;
    *ret_word = *at;
    *at = last;
    while (is_blank(last[-1]))
        last--;
    *ret_n = (size_t)(last - *ret_word);
    return true;
}

static bool is_word(const char *word, size_t n, const char *expected)
{
    return n == strlen(expected) && strncasecmp(word, expected, n) == 0;
}

static void read_connection(struct gs_response *response, const char *value, size_t n)
{
    const char *at = value, *word;
    size_t length;
    while (next_word(&at, value + n, &word, &length)) {
        response->says_close |= is_word(word, length, "close");
        response->says_keep_alive |= is_word(word, length, "keep-alive");
    }
}

/* Nothing may come after chunked. Any other last coding means a body until the end of the
 * connection. */
static int read_coding(struct gs_response *response, const char *value, size_t n)
{
    const char *at = value, *word;
    size_t length;
    while (next_word(&at, value + n, &word, &length)) {
        if (response->is_chunked)
            return -EPROTO;
        response->has_coding = true;
        response->is_chunked = is_word(word, length, "chunked");
    }
    return response->has_coding ? 0 : -EPROTO;
}

static int read_value(struct gs_response *response, const char *line, size_t name_length, size_t n)
{
    const char *value = line + name_length + 1, *end = line + n;
    while (value < end && is_blank(*value))
        value++;
    while (end > value && is_blank(end[-1]))
        end--;
    size_t length = (size_t)(end - value);
    if (is_word(line, name_length, "content-length"))
        return response->is_cut ? -EPROTO : read_length(response, value, length);
    if (is_word(line, name_length, "transfer-encoding"))
        return response->is_cut ? -EPROTO : read_coding(response, value, length);
    if (is_word(line, name_length, "connection"))
        read_connection(response, value, length);
    return 0;
}

static int read_field(struct gs_response *response, const char *line, size_t n)
{
    if (is_blank(line[0]))
        return -EPROTO;
    const char *colon = memchr(line, ':', n);
    if (!colon)
        return response->is_cut ? 0 : -EPROTO;
    size_t name_length = (size_t)(colon - line);
    if (!name_length || is_blank(colon[-1]))
        return -EPROTO;
    /* The lengths of the three names that matter. */
    if (name_length == 14 || name_length == 17 || name_length == 10)
        return read_value(response, line, name_length, n);
    return 0;
}

static void begin_again(struct gs_response *response)
{
    uint32_t header_bytes = response->header_bytes;
    gs_response_init(response, response->is_head);
    response->header_bytes = header_bytes;
}

static int end_fields(struct gs_response *response)
{
    if (response->status < 200) {
        begin_again(response);
        return 0;
    }
    if (response->has_coding && (response->has_length || response->is_http_1_0))
        return -EPROTO;
    bool has_body = !response->is_head && response->status != 204 && response->status != 304;
    bool is_framed = !has_body || response->is_chunked || response->has_length;
    response->keep_alive =
        is_framed && !response->says_close && (!response->is_http_1_0 || response->says_keep_alive);
    if (!is_framed)
        response->state = UNTIL_CLOSE;
    else if (has_body && response->is_chunked)
        response->state = SIZE;
    else
        response->state = has_body && response->left ? LENGTH : DONE;
    response->header_bytes = 0;
    return 0;
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_size(struct gs_response *response, const char *line, size_t n)
{
    uint64_t size = 0;
    size_t i = 0;
    for (; i < n && hex_value(line[i]) >= 0; i++) {
        if (size >> 58)
            return -EPROTO;
        size = size << 4 | (uint64_t)hex_value(line[i]);
    }
    if (!i || (i < n && line[i] != ';' && !is_blank(line[i])))
        return -EPROTO;
    response->left = size;
    response->state = size ? CHUNK : TRAILER;
    response->header_bytes = 0;
    return 0;
}

static int read_line(struct gs_response *response, const char *line, size_t n)
{
    switch (response->state) {
    case STATUS:
        return read_status(response, line, n);
    case FIELDS:
        return n ? read_field(response, line, n) : end_fields(response);
    case SIZE:
        return read_size(response, line, n);
    case CHUNK_END:
        response->state = SIZE;
        return n ? -EPROTO : 0;
    default: /* TRAILER: its fields are not looked at */
        response->state = n ? TRAILER : DONE;
        return 0;
    }
}

/* ---- Bytes ---- */

static void keep_start_of_line(struct gs_response *response, const char *bytes, size_t n)
{
    size_t room = sizeof response->carry - response->carried;
    response->is_cut |= n > room;
    n = n > room ? room : n;
    memcpy(response->carry + response->carried, bytes, n);
    response->carried += (uint8_t)n;
}

/* Read one line, or keep the beginning of one. */
static ssize_t feed_line(struct gs_response *response, const char *bytes, size_t n)
{
    const char *newline = memchr(bytes, '\n', n), *line = bytes;
    size_t used = newline ? (size_t)(newline + 1 - bytes) : n, length = used - 1;
    if (used > GS_RESPONSE_HEADER_LIMIT - response->header_bytes)
        return -EMSGSIZE;
    response->header_bytes += (uint32_t)used;
    if (!newline || response->carried) {
        keep_start_of_line(response, bytes, newline ? length : n);
        if (!newline)
            return (ssize_t)n;
        line = response->carry;
        length = response->carried;
    } else if (length > sizeof response->carry) {
        response->is_cut = true; /* as it would be had it come in two parts */
        length = sizeof response->carry;
    }
    if (!response->is_cut && length && line[length - 1] == '\r')
        length--;
    int err = read_line(response, line, length);
    response->carried = 0;
    response->is_cut = false;
    return err ? err : (ssize_t)used;
}

static size_t feed_body(struct gs_response *response, size_t n)
{
    if (response->state == UNTIL_CLOSE) {
        response->body_bytes += n;
        return n;
    }
    size_t used = n < response->left ? n : (size_t)response->left;
    response->body_bytes += used;
    response->left -= used;
    if (!response->left)
        response->state = response->state == CHUNK ? CHUNK_END : DONE;
    return used;
}

ssize_t gs_response_feed(struct gs_response *response, const char *bytes, size_t n)
{
    size_t used = 0;
    while (used < n && response->state != DONE) {
        bool is_body =
            response->state == LENGTH || response->state == CHUNK || response->state == UNTIL_CLOSE;
        ssize_t step = is_body ? (ssize_t)feed_body(response, n - used)
                               : feed_line(response, bytes + used, n - used);
        if (step < 0)
            return step;
        used += (size_t)step;
    }
    return (ssize_t)used;
}
