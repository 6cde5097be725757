/* Any bytes as a chunked body: the end, the error and the count of data are the same in whatever
 * pieces they come. */
#include "http/chunked.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    size_t eaten;
    uint64_t total, left;
    bool failed, done;
};

static struct outcome eat(const char *bytes, size_t n, size_t first, size_t step)
{
    struct gs_http_chunked chunked;
    struct outcome outcome = {0};
    gs_http_chunked_init(&chunked);
    for (size_t piece = first; outcome.eaten < n && !outcome.done; piece = step) {
        size_t offered = n - outcome.eaten < piece ? n - outcome.eaten : piece;
        ssize_t eaten =
            gs_http_chunked_eat(&chunked, bytes + outcome.eaten, offered, &outcome.done);
        outcome.failed = eaten < 0;
        if (outcome.failed)
            return (struct outcome){.failed = true};
        assert((size_t)eaten == offered || outcome.done);
        outcome.eaten += (size_t)eaten;
    }
    assert(chunked.total <= outcome.eaten);
    outcome.total = chunked.total;
    outcome.left = chunked.left;
    return outcome;
}

static void check_same(struct outcome a, struct outcome b)
{
    assert(a.failed == b.failed && a.done == b.done);
    assert(a.eaten == b.eaten && a.total == b.total && a.left == b.left);
}

/* The first byte says where the bytes are split; then they come one by one. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *bytes = (const char *)data + 1;
    size_t n = size - 1, split = 1 + data[0] % n;
    struct outcome whole = eat(bytes, n, n, n);
    check_same(whole, eat(bytes, n, split, n));
    check_same(whole, eat(bytes, n, 1, 1));
    if (whole.done)
        assert(whole.eaten >= 5 && !memcmp(bytes + whole.eaten - 4, "\r\n\r\n", 4));
    return 0;
}
