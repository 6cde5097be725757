#include "http/etag.h"

#include "http/token.h"

/* The finalizer of MurmurHash3: each bit of the value changes half of the bits of the result. */
static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 33) * UINT64_C(0xff51afd7ed558ccd);
    value = (value ^ value >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ value >> 33;
}

static char *put_hex(char *out, uint64_t value, unsigned digits)
{
    for (int shift = (int)(digits - 1) * 4; shift >= 0; shift -= 4)
        *out++ = "0123456789abcdef"[value >> shift & 15];
    return out;
}

static uint64_t nanoseconds(struct timespec time)
{
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

size_t gs_http_etag_format(char *out, const struct stat *stat, bool is_portable)
{
    uint64_t size = (uint64_t)stat->st_size;
    uint64_t own = is_portable ? 0 : mix(mix(stat->st_ino) ^ nanoseconds(stat->st_ctim));
    char *at = out;
    *at++ = '"';
    at = put_hex(at, mix(own ^ nanoseconds(stat->st_mtim)), 16);
    *at++ = '-';
    at = put_hex(at, size, (67 - (unsigned)__builtin_clzll(size | 1)) / 4);
    *at++ = '"';
    return (size_t)(at - out);
}

/* Skip a leading "W/". Returns whether it was present. */
static bool skip_weak_prefix(struct gs_http_text *tag)
{
    if (tag->n < 2 || memcmp(tag->bytes, "W/", 2))
        return false;
    tag->bytes += 2;
    tag->n -= 2;
    return true;
}

/* The length of the quoted tag at the beginning, including the quotes; a backslash is an ordinary
 * character here. 0: malformed. */
static size_t opaque_length(struct gs_http_text text)
{
    if (!text.n || text.bytes[0] != '"')
        return 0;
    for (size_t i = 1; i < text.n; i++) {
        char c = text.bytes[i];
        if (c == '"')
            return i + 1;
        if (c == ' ' || !gs_http_is(c, GS_HTTP_FIELD) || c == '\t')
            return 0;
    }
    return 0;
}

/* Remove the next element from the list. Returns whether it matches the tag. */
static bool match_next(struct gs_http_text *list, struct gs_http_text opaque, bool strong)
{
    bool weak = skip_weak_prefix(list);
    size_t n = opaque_length(*list);
    bool same = n && n == opaque.n && !memcmp(list->bytes, opaque.bytes, n);
    const char *comma = memchr(list->bytes + n, ',', list->n - n);
    size_t element = comma ? (size_t)(comma - list->bytes) : list->n;
    bool alone = gs_http_trim((struct gs_http_text){list->bytes, element}).n == n;
    list->bytes += element;
    list->n -= element;
    return same && alone && !(strong && weak);
}

bool gs_http_etag_list_matches(struct gs_http_text field_value, struct gs_http_text etag,
                               bool strong)
{
    struct gs_http_text list = gs_http_trim(field_value);
    if (gs_http_text_is(list, "*"))
        return true;
    if (skip_weak_prefix(&etag) && strong)
        return false;
    while (list.n) {
        if (list.bytes[0] == ',') {
            list.bytes++;
            list.n--;
            list = gs_http_trim(list);
        } else if (match_next(&list, etag, strong)) {
            return true;
        }
    }
    return false;
}
