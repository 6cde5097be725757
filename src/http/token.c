#include "http/token.h"

#define IS_DIGIT(c) ((c) >= '0' && (c) <= '9')
#define IS_HEX(c) (IS_DIGIT(c) || ((c) >= 'a' && (c) <= 'f') || ((c) >= 'A' && (c) <= 'F'))
#define IS_ALNUM(c) (IS_DIGIT(c) || ((c) >= 'a' && (c) <= 'z') || ((c) >= 'A' && (c) <= 'Z'))
#define IS_MARK(c)                                                                                 \
    ((c) == '!' || (c) == '$' || (c) == '&' || (c) == '\'' || (c) == '*' || (c) == '+' ||          \
     (c) == '-' || (c) == '.' || (c) == '_' || (c) == '~')
#define IS_TCHAR(c)                                                                                \
    (IS_ALNUM(c) || IS_MARK(c) || (c) == '#' || (c) == '%' || (c) == '^' || (c) == '`' ||          \
     (c) == '|')
#define IS_HOST(c)                                                                                 \
    (IS_ALNUM(c) || IS_MARK(c) || (c) == '(' || (c) == ')' || (c) == ';' || (c) == '=')
#define IS_TARGET(c)                                                                               \
    ((c) > 0x20 && (c) < 0x7f && (c) != '#' && (c) != '"' && (c) != '<' && (c) != '>')
#define IS_TEXT(c) ((c) >= 0x20 && (c) != 0x7f)

#define CLASSES(c)                                                                                 \
    ((IS_TCHAR(c) ? GS_HTTP_TCHAR : 0) | (IS_TEXT(c) || (c) == '\t' ? GS_HTTP_FIELD : 0) |         \
     (IS_DIGIT(c) ? GS_HTTP_DIGIT : 0) | (IS_HEX(c) ? GS_HTTP_HEX : 0) |                           \
     (IS_TARGET(c) ? GS_HTTP_TARGET : 0) |                                                         \
     (IS_TEXT(c) && (c) != '/' && (c) != '\\' && (c) != '%' ? GS_HTTP_SEGMENT : 0) |               \
     (IS_HOST(c) ? GS_HTTP_HOST : 0))
#define FOUR(c) CLASSES(c), CLASSES((c) + 1), CLASSES((c) + 2), CLASSES((c) + 3)
#define SIXTEEN(c) FOUR(c), FOUR((c) + 4), FOUR((c) + 8), FOUR((c) + 12)

const uint8_t gs_http_classes[256] = {
    SIXTEEN(0x00), SIXTEEN(0x10), SIXTEEN(0x20), SIXTEEN(0x30), SIXTEEN(0x40), SIXTEEN(0x50),
    SIXTEEN(0x60), SIXTEEN(0x70), SIXTEEN(0x80), SIXTEEN(0x90), SIXTEEN(0xa0), SIXTEEN(0xb0),
    SIXTEEN(0xc0), SIXTEEN(0xd0), SIXTEEN(0xe0), SIXTEEN(0xf0),
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

bool gs_http_is_token(struct gs_http_text text)
{
    for (size_t i = 0; i < text.n; i++)
        if (!gs_http_is(text.bytes[i], GS_HTTP_TCHAR))
            return false;
    return text.n;
}

static bool is_in(struct gs_http_text text, size_t at, unsigned first, unsigned last)
{
    return at < text.n && (unsigned char)text.bytes[at] >= first &&
           (unsigned char)text.bytes[at] <= last;
}

size_t gs_http_utf8_length(struct gs_http_text text)
{
    unsigned lead = text.n ? (unsigned char)text.bytes[0] : 0;
    size_t n = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    unsigned first = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80; /* no overlong forms */
    unsigned last = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;  /* no surrogates */
    if (!n || !is_in(text, 1, first, last))
        return 0;
    for (size_t i = 2; i < n; i++)
        if (!is_in(text, i, 0x80, 0xbf))
            return 0;
    return n;
}

struct gs_http_text gs_http_trim(struct gs_http_text text)
{
    while (text.n && is_space(text.bytes[0])) {
        text.bytes++;
        text.n--;
    }
    while (text.n && is_space(text.bytes[text.n - 1]))
        text.n--;
    return text;
}

/* The length of the first element of the list, up to its comma or the end. */
static size_t element_length(struct gs_http_text list, bool has_quotes)
{
    bool quoted = false;
    for (size_t i = 0; i < list.n; i++) {
        char c = list.bytes[i];
        if (c == '"' && has_quotes)
            quoted = !quoted;
        else if (c == '\\' && quoted)
            i++;
        else if (c == ',' && !quoted)
            return i;
    }
    return list.n;
}

static bool next_element(struct gs_http_text *rest, bool has_quotes,
                         struct gs_http_text *ret_element)
{
    while (rest->n) {
        size_t n = element_length(*rest, has_quotes);
        struct gs_http_text element = gs_http_trim((struct gs_http_text){rest->bytes, n});
        size_t consumed = n < rest->n ? n + 1 : n;
        rest->bytes += consumed;
        rest->n -= consumed;
        if (element.n) {
            *ret_element = element;
            return true;
        }
    }
    return false;
}

bool gs_http_list_next(struct gs_http_text *rest, struct gs_http_text *ret_element)
{
    return next_element(rest, true, ret_element);
}

bool gs_http_tokens_next(struct gs_http_text *rest, struct gs_http_text *ret_element)
{
    return next_element(rest, false, ret_element);
}

static size_t count_digits(uint64_t value)
{
    static const uint64_t powers[] = {
        1U,
        10U,
        100U,
        1000U,
        10000U,
        100000U,
        1000000U,
        10000000U,
        100000000U,
        1000000000U,
        10000000000U,
        100000000000U,
        1000000000000U,
        10000000000000U,
        100000000000000U,
        1000000000000000U,
        10000000000000000U,
        100000000000000000U,
        1000000000000000000U,
        10000000000000000000U,
    };
    /* 1233 / 4096 is slightly more than log10(2), and precise enough for 64 bits: n is the result
     * or one less. */
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    unsigned n = bits * 1233 >> 12;
    return n + ((value | 1) >= powers[n]);
}

size_t gs_http_put_decimal(char *out, uint64_t value)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    size_t n = count_digits(value), at = n;
    for (; value >= 100; value /= 100)
        memcpy(out + (at -= 2), pairs + value % 100 * 2, 2);
    if (value >= 10)
        memcpy(out, pairs + value * 2, 2);
    else
        out[0] = (char)('0' + value);
    return n;
}

bool gs_http_get_decimal(struct gs_http_text digits, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits.n; i++) {
        if (!gs_http_is(digits.bytes[i], GS_HTTP_DIGIT) ||
            __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (unsigned)(digits.bytes[i] - '0'), &value))
            return false;
    }
    if (!digits.n)
        return false;
    *ret_value = value;
    return true;
}
