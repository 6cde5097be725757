#include "websocket/utf8.h"

#include <string.h>

/* The first byte of a character that is not ASCII. The bounds of the second one exclude overlong
 * forms, surrogates, and what is above U+10FFFF. */
static bool begin(struct gs_websocket_utf8 *utf8, unsigned char byte)
{
    if (byte < 0xc2 || byte > 0xf4)
        return false;
    utf8->left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    utf8->low = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    utf8->high = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    return true;
}

static bool proceed(struct gs_websocket_utf8 *utf8, unsigned char byte)
{
    if (byte < utf8->low || byte > utf8->high)
        return false;
    utf8->left--;
    utf8->low = 0x80;
    utf8->high = 0xbf;
    return true;
}

/* Returns how many bytes of ASCII the text begins with, as far as they are found eight by eight. */
static size_t skip_ascii(const char *bytes, size_t n)
{
    size_t i = 0;
    uint64_t word;
    for (; n - i >= sizeof word; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        if (word & 0x8080808080808080u)
            break;
    }
    return i;
}

bool gs_websocket_utf8_check(struct gs_websocket_utf8 *utf8, const char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n) {
        unsigned char byte = (unsigned char)bytes[i];
        if (utf8->left) {
            if (!proceed(utf8, byte))
                return false;
            i++;
        } else if (byte >= 0x80) {
            if (!begin(utf8, byte))
                return false;
            i++;
        } else {
            i += 1 + skip_ascii(bytes + i + 1, n - i - 1);
        }
    }
    return true;
}
