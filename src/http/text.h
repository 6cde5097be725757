/* Text: a piece of bytes that belongs to somebody else, usually to the buffer a request was read
 * into.
 *
 *     struct gs_http_text method = {bytes, 3};
 *     if (gs_http_text_is(method, "GET"))
 *         ...
 *
 * Nothing is terminated by NUL and nothing is copied. An absent piece has bytes == NULL and n == 0;
 * one that is present and empty has bytes != NULL.
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

/* The same bytes as word. */
static inline bool gs_http_text_is(struct gs_http_text text, const char *word)
{
    return text.n == strlen(word) && (!text.n || !memcmp(text.bytes, word, text.n));
}

/* The same bytes as lowercase_word once the letters A to Z are folded, whatever the locale. */
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
