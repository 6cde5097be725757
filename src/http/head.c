#include "http/head.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t block __attribute__((vector_size(16)));
typedef uint64_t halves __attribute__((vector_size(16)));

/* The place among sixteen bytes of the first that is below 0x20 or is 0x7f; 16: none is. */
static size_t control_among(const char *at)
{
    block bytes;
    memcpy(&bytes, at, sizeof bytes);
    halves found = (halves)((bytes < 0x20) | (bytes == 0x7f));
    if (found[0])
        return (size_t)__builtin_ctzll(found[0]) / 8;
    return found[1] ? 8 + (size_t)__builtin_ctzll(found[1]) / 8 : sizeof(block);
}

static const char *find_control(const char *at, const char *end)
{
    while (end - at >= (ptrdiff_t)sizeof(block)) {
        size_t n = control_among(at);
        at += n;
        if (n < sizeof(block))
            return at;
    }
    while (at < end && (unsigned char)*at >= 0x20 && *at != 0x7f)
        at++;
    return at;
}

ssize_t gs_http_head_end(const char *bytes, size_t n, size_t *scanned)
{
    const char *end = bytes + n;
    const char *at = bytes + *scanned;
    while ((at = find_control(at, end)) < end) {
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
