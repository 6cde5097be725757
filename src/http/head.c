#include "http/head.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define EACH_BYTE(value_) (UINT64_C(0x0101010101010101) * (value_))

/* The high bit of each byte that is below 0x20 or is 0x7f, exact up to the first of them; see
 * "Determine if a word has a byte less than n", Bit Twiddling Hacks. */
static uint64_t control_bytes(uint64_t word)
{
    uint64_t del = word ^ EACH_BYTE(0x7f);
    uint64_t below = (word - EACH_BYTE(0x20)) & ~word;
    uint64_t is_del = (del - EACH_BYTE(1)) & ~del;
    return (below | is_del) & EACH_BYTE(0x80);
}

static const char *find_control(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        uint64_t found = control_bytes(word);
        if (found)
            return at + __builtin_ctzll(found) / 8;
        at += 8;
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
