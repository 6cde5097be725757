/* Fuzzes the decoder of chunked bodies with any bytes: the end, the error and the number of data
 * bytes are the same for any split. */
#include "http/chunked.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    size_t consumed;
    uint64_t total, left;
    bool failed, done;
};

static struct outcome decode(const char *bytes, size_t n, size_t first, size_t step)
{
    struct gs_http_chunked chunked;
    struct outcome outcome = {0};
    gs_http_chunked_init(&chunked);
    for (size_t piece = first; outcome.consumed < n && !outcome.done; piece = step) {
        size_t offered = n - outcome.consumed < piece ? n - outcome.consumed : piece;
        ssize_t consumed =
            gs_http_chunked_decode(&chunked, bytes + outcome.consumed, offered, &outcome.done);
        outcome.failed = consumed < 0;
        if (outcome.failed)
            return (struct outcome){.failed = true};
        assert((size_t)consumed == offered || outcome.done);
        outcome.consumed += (size_t)consumed;
    }
    assert(chunked.total <= outcome.consumed);
    outcome.total = chunked.total;
    outcome.left = chunked.left;
    return outcome;
}

static void check_same(struct outcome a, struct outcome b)
{
    assert(a.failed == b.failed && a.done == b.done);
    assert(a.consumed == b.consumed && a.total == b.total && a.left == b.left);
}

/* The first byte is the position of the split; the input is also decoded byte by byte. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *bytes = (const char *)data + 1;
    size_t n = size - 1, split = 1 + data[0] % n;
    struct outcome full = decode(bytes, n, n, n);
    check_same(full, decode(bytes, n, split, n));
    check_same(full, decode(bytes, n, 1, 1));
    if (full.done)
        assert(full.consumed >= 5 && !memcmp(bytes + full.consumed - 4, "\r\n\r\n", 4));
    return 0;
}
