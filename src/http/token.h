/* The small grammar that all of HTTP shares: classes of characters, tokens, lists, decimal numbers.
 *
 *     struct gs_http_text rest = connection_field, option;
 *     while (gs_http_tokens_next(&rest, &option))
 *         if (gs_http_text_is_nocase(option, "close"))
 *             keep_alive = false;
 *
 * No function here keeps state or allocates; all may be called from any thread.
 */
#ifndef GS_HTTP_TOKEN_H
#define GS_HTTP_TOKEN_H

#include "http/text.h"

#include <gossamer/api.h>
#include <stdint.h>

/* The classes of a byte, as bits of gs_http_classes[byte].
 *
 * A request target is taken as it is in the world rather than as RFC 3986 has it: browsers send | ^
 * { } [ ] and ` as they stand, and none of these can be mistaken for a part of the message. The rest
 * is refused: controls, space and DEL, which end or split lines; '#', since a fragment never
 * travels; '"', '<' and '>', which every browser escapes; and bytes from 0x80, whose encoding nobody
 * could know. */
enum {
    GS_HTTP_TCHAR = 1,    /* a character of a token (RFC 9110, 5.6.2)                       */
    GS_HTTP_FIELD = 2,    /* of a field value: visible, space, tab, and bytes from 0x80     */
    GS_HTTP_DIGIT = 4,    /* 0 to 9                                                         */
    GS_HTTP_HEX = 8,      /* 0 to 9, a to f, A to F                                         */
    GS_HTTP_TARGET = 16,  /* of a request target: 0x21 to 0x7e without '#', '"', '<', '>'   */
    GS_HTTP_SEGMENT = 32, /* of a path, meaning just itself: no control, '/', '\' or '%'    */
    GS_HTTP_HOST = 64,    /* of a host name (RFC 3986, reg-name), without '%' and ','       */
};
extern const uint8_t gs_http_classes[256];

/* Whether c belongs to one of the classes. */
static inline bool gs_http_is(char c, unsigned classes)
{
    return gs_http_classes[(unsigned char)c] & classes;
}

/* The value of a hexadecimal digit. */
static inline unsigned gs_http_hex_value(char digit)
{
    return digit <= '9' ? (unsigned)(digit - '0') : (unsigned)((digit | 0x20) - 'a') + 10;
}

/* One or more token characters and nothing else. */
bool gs_http_is_token(struct gs_http_text text);

/* The text without the spaces and tabs at both ends. */
struct gs_http_text gs_http_trim(struct gs_http_text text);

/* Take the next element off a list separated by commas (RFC 9110, 5.6.1): without the white space
 * around it, empty elements skipped, commas within quoted strings not counted. A quoted string that
 * does not end reaches to the end of the list. False when no element is left. */
bool gs_http_list_next(struct gs_http_text *rest, struct gs_http_text *ret_element);

/* The same for a list of tokens, where a quotation mark is just a wrong character and hides no
 * comma. */
bool gs_http_tokens_next(struct gs_http_text *rest, struct gs_http_text *ret_element);

/* Write value in decimal, without NUL: the length, at most GS_HTTP_DECIMAL_MAX. */
#define GS_HTTP_DECIMAL_MAX 20
size_t gs_http_put_decimal(char *out, uint64_t value);

/* Read digits that must be all of the text. False: empty, something else than digits, or beyond
 * 2^64 - 1. */
GS_MUST_CHECK bool gs_http_get_decimal(struct gs_http_text digits, uint64_t *ret_value);

#endif
