/* The basic grammar of HTTP: classes of characters, tokens, lists, decimal numbers.
 *
 *     struct gs_http_text rest = connection_field, option;
 *     while (gs_http_tokens_next(&rest, &option))
 *         if (gs_http_text_is_nocase(option, "close"))
 *             keep_alive = false;
 *
 * The functions have no state and do not allocate; any thread may call them.
 */
#ifndef GS_HTTP_TOKEN_H
#define GS_HTTP_TOKEN_H

#include "base/hidden.h"
#include "http/text.h"

#include <gossamer/api.h>
#include <stdint.h>

/* The classes of a byte, as bits of gs_http_classes[byte].
 *
 * Request targets may contain more than RFC 3986 allows: browsers send | ^ { } [ ] and ` unescaped,
 * and these characters are unambiguous in a message. All others are refused: controls, space and
 * DEL, which end or split lines; '#', since fragments are never sent; '"', '<' and '>', which all
 * browsers escape; and bytes from 0x80 that are not UTF-8, whose encoding is unknown. */
enum {
    GS_HTTP_TCHAR = 1,    /* a character of a token (RFC 9110, 5.6.2)                       */
    GS_HTTP_FIELD = 2,    /* of a field value: visible, space, tab, and bytes from 0x80     */
    GS_HTTP_DIGIT = 4,    /* 0 to 9                                                         */
    GS_HTTP_HEX = 8,      /* 0 to 9, a to f, A to F                                         */
    GS_HTTP_TARGET = 16,  /* of a request target: 0x21 to 0x7e without '#', '"', '<', '>'   */
    GS_HTTP_SEGMENT = 32, /* of a path, without special meaning: no control, '/', '\', '%'  */
    GS_HTTP_HOST = 64,    /* of a host name (RFC 3986, reg-name), without '%' and ','       */
};
extern GS_HIDDEN const uint8_t gs_http_classes[256];

/* Returns whether c belongs to one of the classes. */
static inline bool gs_http_is(char c, unsigned classes)
{
    return gs_http_classes[(unsigned char)c] & classes;
}

/* The value of a hexadecimal digit. */
static inline unsigned gs_http_hex_value(char digit)
{
    return digit <= '9' ? (unsigned)(digit - '0') : (unsigned)((digit | 0x20) - 'a') + 10;
}

/* Returns whether the text consists of one or more token characters. */
bool gs_http_is_token(struct gs_http_text text);

/* Returns the number of bytes, 2 to 4, of the well-formed UTF-8 sequence (RFC 3629, 4) at the
 * beginning of the text; 0 if there is none. */
size_t gs_http_utf8_length(struct gs_http_text text);

/* Returns the text without leading and trailing spaces and tabs. */
struct gs_http_text gs_http_trim(struct gs_http_text text);

/* Remove the next element from a comma-separated list (RFC 9110, 5.6.1), without the white space
 * around it; empty elements are skipped, and commas within quoted strings do not separate. An
 * unterminated quoted string extends to the end of the list. Returns false if no element is left.
 */
bool gs_http_list_next(struct gs_http_text *rest, struct gs_http_text *ret_element);

/* The same for a list of tokens, where a quotation mark is an invalid character and does not quote
 * commas. */
bool gs_http_tokens_next(struct gs_http_text *rest, struct gs_http_text *ret_element);

/* Write value in decimal, without NUL. Returns the length, at most GS_HTTP_DECIMAL_MAX. */
#define GS_HTTP_DECIMAL_MAX 20
size_t gs_http_put_decimal(char *out, uint64_t value);

/* Parse a text that consists of digits. Returns false if it is empty, contains other characters, or
 * exceeds 2^64 - 1. */
GS_MUST_CHECK bool gs_http_get_decimal(struct gs_http_text digits, uint64_t *ret_value);

#endif
