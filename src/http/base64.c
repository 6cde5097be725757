#include "http/base64.h"

#include <errno.h>

void gs_http_base64_write(char *out, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= i + 2 < n ? bytes[i + 2] : 0;
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = i + 1 < n ? digits[group >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[group & 63] : '=';
    }
}

/* Returns 64 if the character is no digit. */
static unsigned value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* Returns how many bytes four characters mean, 0 if they are malformed. At most two are padding, of
 * the last four, and what they hide must be zero: a text has one form only. */
static unsigned read_four(const char *text, bool is_last, uint8_t out[3])
{
    unsigned padding = !is_last || text[3] != '=' ? 0 : text[2] != '=' ? 1 : 2;
    uint32_t group = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned value = i < 4 - padding ? value_of(text[i]) : 0;
        if (value == 64)
            return 0;
        group = group << 6 | value;
    }
    if (group & ((1U << (8 * padding)) - 1))
        return 0;
    out[0] = (uint8_t)(group >> 16);
    out[1] = (uint8_t)(group >> 8);
    out[2] = (uint8_t)group;
    return 3 - padding;
}

ssize_t gs_http_base64_read(char *out, size_t size, struct gs_http_text text)
{
    size_t n = 0;
    if (text.n % 4)
        return -EINVAL;
    for (size_t i = 0; i < text.n; i += 4) {
        uint8_t bytes[3];
        unsigned count = read_four(text.bytes + i, i + 4 == text.n, bytes);
        if (!count || count > size - n)
            return -EINVAL;
        memcpy(out + n, bytes, count);
        n += count;
    }
    return (ssize_t)n;
}
