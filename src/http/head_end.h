/* The end of the head of a request. It is searched for in each request, where it is inlined. */
#ifndef GS_HTTP_HEAD_END_H
#define GS_HTTP_HEAD_END_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

typedef uint8_t gs_http_block __attribute__((vector_size(16)));
typedef uint64_t gs_http_halves __attribute__((vector_size(16)));

/* The index of the first control character (below 0x20, or 0x7f) among 16 bytes; 16: none. */
static inline size_t gs_http_index_of_control(const char *at)
{
    gs_http_block bytes;
    memcpy(&bytes, at, sizeof bytes);
    gs_http_halves found = (gs_http_halves)((bytes < 0x20) | (bytes == 0x7f));
    if (found[0])
        return (size_t)__builtin_ctzll(found[0]) / 8;
    return found[1] ? 8 + (size_t)__builtin_ctzll(found[1]) / 8 : sizeof(gs_http_block);
}

static inline const char *gs_http_find_control(const char *at, const char *end)
{
    while (end - at >= (ptrdiff_t)sizeof(gs_http_block)) {
        size_t n = gs_http_index_of_control(at);
        at += n;
        if (n < sizeof(gs_http_block))
            return at;
    }
    while (at < end && (unsigned char)*at >= 0x20 && *at != 0x7f)
        at++;
    return at;
}

/* Find the empty line that ends a head (RFC 9112: request line and fields). *scanned is initially 0
 * and is kept between calls with more of the same bytes; the search starts there. Returns the
 * length of the head including its empty line; 0 if it is incomplete; or -EPROTO as soon as a byte
 * occurs that no head may contain: a control character other than a tab, CR without LF, LF without
 * CR. In a complete head CR and LF therefore occur as line ends only. */
static inline ssize_t gs_http_find_head_end(const char *bytes, size_t n, size_t *scanned)
{
    const char *end = bytes + n;
    const char *at = bytes + *scanned;
    while ((at = gs_http_find_control(at, end)) < end) {
        if (*at == '\t') {
            at++;
            continue;
        }
        if (*at != '\r')
            return -EPROTO;
        *scanned = (size_t)(at - bytes);
        if (end - at < 2)
            return 0;
        if (at[1] != '\n')
            return -EPROTO;
        if (end - at >= 3 && at[2] == '\r') {
            if (end - at < 4)
                return 0;
            if (at[3] != '\n')
                return -EPROTO;
            return at + 4 - bytes;
        }
        if (end - at < 3)
            return 0;
        at += 2;
    }
    *scanned = n;
    return 0;
}

#endif
