/* Fuzzes the client's parser of responses: bytes that are split anywhere have the same meaning as
 * at once, and the fields of a head are strings within it. */
#include "http/response_head.h"
#include "http/response_parser.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIELDS_MAX 16u

struct outcome {
    ssize_t used; /* or the error */
    uint64_t body, hash;
    uint16_t status;
    bool is_done, has_head;
    size_t head_n;
};

static void check_head(const char *bytes, size_t n)
{
    char *head = malloc(n);
    struct gs_http_field fields[FIELDS_MAX];
    assert(head);
    memcpy(head, bytes, n);
    int count = gs_http_response_head_split(head, n, fields, FIELDS_MAX);
    assert(count <= (int)FIELDS_MAX);
    for (int i = 0; i < count; i++) {
        assert(fields[i].name > head && fields[i].name[0]);
        assert(fields[i].value > fields[i].name);
        assert(fields[i].value + strlen(fields[i].value) < head + n);
    }
    free(head);
}

/* Feed parts of this size. */
static struct outcome parse(const char *bytes, size_t n, size_t part, bool is_head)
{
    struct gs_http_response_parser parser;
    struct outcome outcome = {.hash = 5381};
    size_t used = 0;
    gs_http_response_parser_init(&parser, is_head);
    while (used < n && !gs_http_response_parser_is_done(&parser)) {
        struct gs_http_text data;
        size_t left = n - used < part ? n - used : part;
        bool had_head = gs_http_response_parser_has_head(&parser);
        ssize_t step = gs_http_response_parser_next(&parser, bytes + used, left, &data);
        if (step < 0) {
            assert(parser.reason);
            outcome.used = step;
            return outcome;
        }
        assert(step > 0 && (size_t)step <= left && data.n <= (size_t)step);
        assert(!data.n || (had_head && data.bytes + data.n == bytes + used + step));
        used += (size_t)step;
        outcome.body += data.n;
        for (size_t i = 0; i < data.n; i++)
            outcome.hash = outcome.hash * 33 + (unsigned char)data.bytes[i];
        if (!had_head && gs_http_response_parser_has_head(&parser)) {
            assert(parser.interim_bytes < used);
            outcome.head_n = used;
            check_head(bytes + parser.interim_bytes, used - parser.interim_bytes);
        }
    }
    assert(outcome.body == parser.body_bytes);
    outcome.used = (ssize_t)used;
    outcome.status = parser.status;
    outcome.is_done = gs_http_response_parser_is_done(&parser);
    outcome.has_head = gs_http_response_parser_has_head(&parser);
    return outcome;
}

/* The first byte is the size of the parts, and whether it is a response to HEAD. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    bool is_head = data[0] & 1;
    const char *bytes = (const char *)data + 1;
    struct outcome whole = parse(bytes, size - 1, size, is_head);
    struct outcome split = parse(bytes, size - 1, 1 + data[0] / 2, is_head);
    assert(whole.used == split.used && whole.body == split.body && whole.hash == split.hash);
    assert(whole.status == split.status && whole.is_done == split.is_done);
    assert(whole.has_head == split.has_head && whole.head_n == split.head_n);
    return 0;
}
