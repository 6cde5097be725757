/* Fuzzes the parser of Accept-Encoding with any lines: the weights and ranks agree with each other,
 * a list may be split into lines at a comma, and identity is refused only if something says so. */
#include "http/coding.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct gs_http_accepted *accepted)
{
    for (unsigned than = 0; than < GS_HTTP_CODINGS; than++)
        for (unsigned coding = 0; coding < GS_HTTP_CODINGS; coding++) {
            bool is_above = accepted->above[than] & GS_HTTP_CODING_BIT(coding);
            assert(accepted->weights[coding] <= 1001);
            assert(!is_above || (coding && accepted->weights[coding]));
            assert(!is_above || accepted->weights[coding] >= accepted->weights[than]);
            assert(coding == than || !is_above ||
                   !(accepted->above[coding] & GS_HTTP_CODING_BIT(than)));
        }
}

static size_t put(char *at, const char *bytes, size_t n)
{
    memcpy(at, bytes, n);
    return n;
}

/* The first byte tells after which comma the list is split, or that it is not; the rest is the
 * value, of characters that a field may have. */
static struct gs_http_accepted accept_split(const uint8_t *data, size_t size, unsigned split)
{
    static const char name[] = "Accept-Encoding:", other[] = "\r\nHost: a\r\naccept-encoding: ";
    char *head = malloc(size + sizeof name + sizeof other + 4);
    size_t n = 0;
    assert(head);
    n += put(head + n, name, sizeof name - 1);
    for (size_t i = 0; i < size; i++) {
        bool is_control = data[i] < ' ' || data[i] == 0x7f;
        head[n++] = is_control ? '\t' : (char)data[i];
        if (data[i] != ',' || split-- != 0)
            continue;
        n--;
        n += put(head + n, other, sizeof other - 1);
    }
    n += put(head + n, "\r\n\r\n", 4);
    struct gs_http_accepted accepted = gs_http_accepted_in((struct gs_http_text){head, n});
    if (!accepted.weights[GS_HTTP_IN_IDENTITY])
        assert(memchr(head, '*', n) || memchr(head, '0', n));
    free(head);
    return accepted;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct gs_http_accepted whole = accept_split(data + 1, size - 1, UINT32_MAX);
    struct gs_http_accepted split = accept_split(data + 1, size - 1, data[0]);
    check(&whole);
    assert(!memcmp(whole.weights, split.weights, sizeof whole.weights));
    assert(!memcmp(whole.above, split.above, sizeof whole.above));
    return 0;
}
