#include "websocket/key.h"

/* ---- SHA-1 (RFC 3174), of two blocks: a key and the constant behind it ---- */

#define BLOCK 64u

static uint32_t rotate(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

static uint32_t mix(unsigned round, uint32_t b, uint32_t c, uint32_t d)
{
    if (round < 20)
        return ((b & c) | (~b & d)) + 0x5a827999;
    if (round < 40)
        return (b ^ c ^ d) + 0x6ed9eba1;
    if (round < 60)
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + 0xca62c1d6;
}

static void hash_block(uint32_t hash[5], const uint8_t *block)
{
    uint32_t words[80], state[5];
    for (unsigned i = 0; i < 16; i++, block += 4)
        words[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
                   block[3];
    for (unsigned i = 16; i < 80; i++)
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    memcpy(state, hash, sizeof state);
    for (unsigned i = 0; i < 80; i++) {
        uint32_t next =
            rotate(state[0], 5) + mix(i, state[1], state[2], state[3]) + state[4] + words[i];
        state[4] = state[3];
        state[3] = state[2];
        state[2] = rotate(state[1], 30);
        state[1] = state[0];
        state[0] = next;
    }
    for (unsigned i = 0; i < 5; i++)
        hash[i] += state[i];
}

/* ---- Base64 (RFC 4648, 4) ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i += 3) {
        size_t count = n - i < 3 ? n - i : 3;
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= count > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= count > 2 ? bytes[i + 2] : 0;
        for (unsigned j = 0; j < 4; j++)
            *out++ = j <= count ? digits[group >> (18 - 6 * j) & 63] : '=';
    }
}

/* ---- Keys ---- */

void gs_websocket_key(const uint8_t random[16], char out[GS_WEBSOCKET_KEY])
{
    encode(random, 16, out);
}

/* The last digit has two bits of the 16 bytes; some clients set the others. */
bool gs_websocket_key_is_valid(struct gs_http_text key)
{
    if (key.n != GS_WEBSOCKET_KEY || key.bytes[22] != '=' || key.bytes[23] != '=')
        return false;
    for (unsigned i = 0; i < 22; i++)
        if (!key.bytes[i] || !strchr(digits, key.bytes[i]))
            return false;
    return true;
}

void gs_websocket_answer(const char key[GS_WEBSOCKET_KEY], char out[GS_WEBSOCKET_ACCEPT])
{
    static const char constant[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    const size_t n = GS_WEBSOCKET_KEY + sizeof constant - 1;
    uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t blocks[2 * BLOCK] = {0}, bytes[20];
    memcpy(blocks, key, GS_WEBSOCKET_KEY);
    memcpy(blocks + GS_WEBSOCKET_KEY, constant, sizeof constant - 1);
    blocks[n] = 0x80;
    blocks[2 * BLOCK - 2] = (uint8_t)(8 * n >> 8);
    blocks[2 * BLOCK - 1] = (uint8_t)(8 * n);
    hash_block(hash, blocks);
    hash_block(hash, blocks + BLOCK);
    for (unsigned i = 0; i < 20; i++)
        bytes[i] = (uint8_t)(hash[i / 4] >> (24 - 8 * (i % 4)));
    encode(bytes, sizeof bytes, out);
}
