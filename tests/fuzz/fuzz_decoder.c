/* Fuzzes the decoders of content codings: input and output that are split anywhere give the same
 * bytes, if they are complete. */
#include "http_client/decoder.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MAX (256u << 10)

struct outcome {
    ssize_t result; /* 0 or the error */
    uint64_t hash;
    size_t n;
    bool is_complete;
};

/* Decode input until its end or OUT_MAX, in parts of these sizes. */
static struct outcome decode(const char *coding, struct gs_http_text input, size_t part,
                             size_t room)
{
    struct gs_http_client_decoder *decoder;
    struct outcome outcome = {.hash = 5381};
    char *out = malloc(room);
    bool is_full = false;
    int err = gs_http_client_decoder_new(coding, &decoder);
    assert(!err && out);
    while ((input.n || is_full) && outcome.n < OUT_MAX) {
        struct gs_http_text given = {input.bytes, input.n < part ? input.n : part};
        size_t before = given.n;
        ssize_t n = gs_http_client_decode(decoder, &given, out, room);
        assert(n <= (ssize_t)room && given.n <= before);
        if (n < 0) {
            outcome.result = n;
            break;
        }
        assert(n || given.n < before || is_full);
        is_full = (size_t)n == room;
        input.bytes += before - given.n;
        input.n -= before - given.n;
        for (ssize_t i = 0; i < n && outcome.n < OUT_MAX; i++, outcome.n++)
            outcome.hash = outcome.hash * 33 + (unsigned char)out[i];
    }
    outcome.is_complete = gs_http_client_decoder_is_complete(decoder);
    gs_http_client_decoder_free(decoder);
    free(out);
    return outcome;
}

/* The first byte selects the coding and the sizes of the parts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const codings[] = {"gzip", "br", "zstd"};
    if (!size)
        return 0;
    const char *coding = codings[data[0] % 3];
    if (!gs_http_client_can_decode(coding))
        return 0;
    struct gs_http_text input = {(const char *)data + 1, size - 1};
    struct outcome whole = decode(coding, input, size, 1u << 16);
    struct outcome split = decode(coding, input, 1 + data[0] / 3 % 8, 1 + data[0] / 24 * 100);
    if (whole.n == OUT_MAX || split.n == OUT_MAX)
        return 0;
    bool is_good = !whole.result && whole.is_complete;
    assert(is_good == (!split.result && split.is_complete));
    if (is_good)
        assert(whole.n == split.n && whole.hash == split.hash);
    return 0;
}
