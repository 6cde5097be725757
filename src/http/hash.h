/* A hash of texts that a client chooses, for tables whose keys it does not. */
#ifndef GS_HTTP_HASH_H
#define GS_HTTP_HASH_H

#include "http/text.h"

#include <stdint.h>

static inline uint64_t gs_http_hash_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

/* bits: set in each word: GS_HTTP_HASH_NOCASE for texts whose case does not matter; 0: none. */
#define GS_HTTP_HASH_NOCASE UINT64_C(0x2020202020202020)
static inline uint32_t gs_http_hash(struct gs_http_text text, uint64_t seed, uint64_t bits)
{
    uint64_t hash = text.n ^ seed, word = 0;
    size_t i = 0;
    for (; text.n - i > 8; i += 8) {
        memcpy(&word, text.bytes + i, 8);
        hash = gs_http_hash_mix(hash, word | bits);
    }
    if (i) /* the last eight bytes, some of them again */
        memcpy(&word, text.bytes + text.n - 8, 8);
    for (; !i && text.n; text.n--)
        word = word << 8 | (unsigned char)text.bytes[text.n - 1];
    return (uint32_t)(gs_http_hash_mix(hash, word | bits) >> 32);
}

#endif
