#include "http/host.h"

#include "http/token.h"

/* The number of consecutive bytes of the class, from position `at` on. */
static size_t span(struct gs_http_text text, size_t at, unsigned class)
{
    const char *byte = text.bytes + at, *end = text.bytes + text.n;
    while (byte < end && gs_http_is(*byte, class))
        byte++;
    return (size_t)(byte - text.bytes) - at;
}

/* Four numbers up to 255, without leading zeros. */
static bool is_ipv4(struct gs_http_text text)
{
    size_t at = 0;
    for (int part = 0; part < 4; part++) {
        struct gs_http_text number = {text.bytes + at, span(text, at, GS_HTTP_DIGIT)};
        uint64_t value;
        if (!gs_http_get_decimal(number, &value) || value > 255 || number.n > 3 ||
            (number.bytes[0] == '0' && number.n > 1))
            return false;
        at += number.n;
        if (part == 3)
            break;
        if (at == text.n || text.bytes[at] != '.')
            return false;
        at++;
    }
    return at == text.n;
}

/* Up to eight groups of one to four digits with colons between; one "::" stands for one or more
 * groups of zero; the last two groups may be an IPv4 address. */
static bool is_ipv6(struct gs_http_text text)
{
    bool has_gap = text.n >= 2 && text.bytes[0] == ':' && text.bytes[1] == ':';
    size_t at = has_gap ? 2 : 0;
    int groups = 0;
    while (at < text.n && groups <= 8) {
        size_t n = span(text, at, GS_HTTP_HEX);
        if (at + n < text.n && text.bytes[at + n] == '.') {
            if (!is_ipv4((struct gs_http_text){text.bytes + at, text.n - at}))
                return false;
            groups += 2;
            break;
        }
        if (n == 0 || n > 4)
            return false;
        groups++;
        at += n;
        if (at == text.n)
            break;
        if (text.bytes[at] != ':' || at + 1 == text.n)
            return false;
        bool is_double = text.bytes[at + 1] == ':';
        if (is_double && has_gap)
            return false;
        has_gap |= is_double;
        at += is_double ? 2 : 1;
    }
    return has_gap ? groups <= 7 : groups == 8;
}

/* "v", hexadecimal digits, ".", then characters of a name or colons (RFC 3986, IPvFuture). */
static bool is_ip_future(struct gs_http_text text)
{
    size_t at = 1;
    if (!text.n || (text.bytes[0] | 0x20) != 'v')
        return false;
    at += span(text, at, GS_HTTP_HEX);
    if (at == 1 || at + 1 >= text.n || text.bytes[at] != '.')
        return false;
    for (at++; at < text.n; at++)
        if (!gs_http_is(text.bytes[at], GS_HTTP_HOST) && text.bytes[at] != ':')
            return false;
    return true;
}

/* The length of the name at the beginning, up to ':' or the end. 0: empty, or an invalid byte. */
static size_t name_length(struct gs_http_text text)
{
    size_t at = span(text, 0, GS_HTTP_HOST);
    while (at < text.n && text.bytes[at] != ':') {
        if (gs_http_is(text.bytes[at], GS_HTTP_HOST))
            at++;
        else if (text.bytes[at] == '%' && text.n - at >= 3 &&
                 gs_http_is(text.bytes[at + 1], GS_HTTP_HEX) &&
                 gs_http_is(text.bytes[at + 2], GS_HTTP_HEX))
            at += 3;
        else
            return 0;
    }
    return at;
}

/* The length of the bracketed address at the beginning. 0: no closing bracket, or no valid address.
 */
static size_t literal_length(struct gs_http_text text)
{
    const char *close = memchr(text.bytes, ']', text.n);
    if (!close)
        return 0;
    struct gs_http_text inside = {text.bytes + 1, (size_t)(close - text.bytes) - 1};
    return is_ipv6(inside) || is_ip_future(inside) ? inside.n + 2 : 0;
}

bool gs_http_host_is_valid(struct gs_http_text value)
{
    size_t host = !value.n ? 0 : value.bytes[0] == '[' ? literal_length(value) : name_length(value);
    if (!host)
        return false;
    if (host == value.n)
        return true;
    struct gs_http_text port = {value.bytes + host + 1, value.n - host - 1};
    uint64_t number = 0;
    return value.bytes[host] == ':' &&
           (!port.n || (gs_http_get_decimal(port, &number) && number <= 65535));
}

struct gs_http_text gs_http_host_name(struct gs_http_text value)
{
    size_t n = value.n;
    while (n && gs_http_is(value.bytes[n - 1], GS_HTTP_DIGIT))
        n--;
    if (n && value.bytes[n - 1] == ':' &&
        (value.bytes[0] != '[' || (n > 1 && value.bytes[n - 2] == ']')))
        value.n = n - 1;
    return value;
}
