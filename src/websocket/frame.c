#include "websocket/frame.h"

#include <string.h>

static size_t put_big_endian(char *out, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(value >> (8 * (n - 1 - i)));
    return n;
}

size_t gs_websocket_frame_put(char out[GS_WEBSOCKET_HEADER_MAX],
                              const struct gs_websocket_frame *frame)
{
    unsigned extended = frame->length < 126 ? 0 : frame->length <= UINT16_MAX ? 2 : 8;
    unsigned short_length = !extended ? (unsigned)frame->length : extended == 2 ? 126 : 127;
    size_t n = 2;
    out[0] =
        (char)(frame->opcode | (frame->is_last ? 0x80 : 0) | (frame->is_compressed ? 0x40 : 0));
    out[1] = (char)(short_length | (frame->is_masked ? 0x80 : 0));
    n += put_big_endian(out + n, frame->length, extended);
    if (frame->is_masked) {
        memcpy(out + n, frame->mask, 4);
        n += 4;
    }
    return n;
}

void gs_websocket_mask(char *bytes, size_t n, const uint8_t mask[4], uint64_t offset)
{
    uint8_t pattern[8];
    uint64_t word, masks;
    for (unsigned i = 0; i < 8; i++)
        pattern[i] = mask[(offset + i) % 4];
    memcpy(&masks, pattern, sizeof masks);
    size_t i = 0;
    for (; n - i >= sizeof word; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        word ^= masks;
        memcpy(bytes + i, &word, sizeof word);
    }
    for (; i < n; i++)
        bytes[i] = (char)(bytes[i] ^ pattern[i % 8]);
}

/* RFC 6455, 7.4, and the registry of IANA. 1004 to 1006 and 1015 are never sent. */
bool gs_websocket_code_is_valid(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}
