#include "http/siphash.h"

#include <endian.h>
#include <string.h>

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static void mix(struct state *state, unsigned rounds)
{
    for (; rounds; rounds--) {
        state->v0 += state->v1;
        state->v2 += state->v3;
        state->v1 = rotate(state->v1, 13) ^ state->v0;
        state->v3 = rotate(state->v3, 16) ^ state->v2;
        state->v0 = rotate(state->v0, 32) + state->v3;
        state->v2 += state->v1;
        state->v1 = rotate(state->v1, 17) ^ state->v2;
        state->v3 = rotate(state->v3, 21) ^ state->v0;
        state->v2 = rotate(state->v2, 32);
    }
}

static void absorb(struct state *state, uint64_t word)
{
    state->v3 ^= word;
    mix(state, 2);
    state->v0 ^= word;
}

static uint64_t read_word(const uint8_t *bytes, size_t n)
{
    uint64_t word = 0;
    memcpy(&word, bytes, n);
    return le64toh(word);
}

static uint64_t squeeze(const struct state *state)
{
    return state->v0 ^ state->v1 ^ state->v2 ^ state->v3;
}

void gs_http_siphash(const uint64_t key[2], const void *bytes, size_t n, uint64_t ret_hash[2])
{
    const uint8_t *at = bytes;
    struct state state = {
        .v0 = UINT64_C(0x736f6d6570736575) ^ key[0],
        .v1 = UINT64_C(0x646f72616e646f6d) ^ key[1] ^ 0xee,
        .v2 = UINT64_C(0x6c7967656e657261) ^ key[0],
        .v3 = UINT64_C(0x7465646279746573) ^ key[1],
    };
    size_t left = n;
    for (; left >= 8; left -= 8, at += 8)
        absorb(&state, read_word(at, 8));
    absorb(&state, read_word(at, left) | (uint64_t)n << 56);
    state.v2 ^= 0xee;
    mix(&state, 4);
    ret_hash[0] = squeeze(&state);
    state.v1 ^= 0xdd;
    mix(&state, 4);
    ret_hash[1] = squeeze(&state);
}
