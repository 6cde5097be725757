/* Text: a borrowed range of bytes, usually of the buffer that contains a request.
 *
 *     struct gs_http_text method = {bytes, 3};
 *     if (gs_http_text_is(method, "GET"))
 *         ...
 *
 * A text is not terminated by NUL, and is never copied. An absent text has bytes == NULL and n ==
 * 0; one that is present and empty has bytes != NULL.
 */
#ifndef GS_HTTP_TEXT_H
#define GS_HTTP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct gs_http_text {
    const char *bytes;
    size_t n;
};

/* The bytes of a string literal. */
#define GS_HTTP_TEXT(literal) ((struct gs_http_text){"" literal, sizeof(literal) - 1})

/* Returns whether the text equals word. */
static inline bool gs_http_text_is(struct gs_http_text text, const char *word)
{
    return text.n == strlen(word) && (!text.n || !memcmp(text.bytes, word, text.n));
}

/* Returns whether the text equals lowercase_word, ignoring the case of A to Z in any locale. */
static inline bool gs_http_text_is_nocase(struct gs_http_text text, const char *lowercase_word)
{
    if (text.n != strlen(lowercase_word))
        return false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.bytes[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c + ('a' - 'A'));
        if (c != lowercase_word[i])
            return false;
    }
    return true;
}

#endif
