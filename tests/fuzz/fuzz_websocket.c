/* Fuzzes what a peer of WebSocket sends: frames, of which the events do not depend on how the bytes
 * are split; compressed messages; and the texts of a handshake. */
#include "http/head_end.h"
#include "websocket/deflate.h"
#include "websocket/parser.h"
#include "websocket/response.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MAX 5000u

/* The events, but not the pieces of data. */
struct outcome {
    uint64_t hash, data_n;
    unsigned code;
    bool has_ended;
};

static void add(struct outcome *outcome, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        outcome->hash = (outcome->hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

static void feed(struct gs_websocket_parser *parser, struct outcome *outcome, const uint8_t *bytes,
                 size_t n)
{
    char *copy = malloc(n + 1);
    struct gs_websocket_input input = {copy, n};
    struct gs_websocket_piece piece;
    enum gs_websocket_event event = GS_WEBSOCKET_MORE;
    assert(copy);
    memcpy(copy, bytes, n);
    while (!outcome->has_ended &&
           (event = gs_websocket_parser_next(parser, &input, 1 + n % 100, &piece))) {
        outcome->has_ended = event == GS_WEBSOCKET_FAILED || event == GS_WEBSOCKET_CLOSE;
        outcome->code = outcome->has_ended ? parser->code : 0;
        if (event != GS_WEBSOCKET_DATA)
            add(outcome, &event, sizeof event);
        if (event != GS_WEBSOCKET_BEGIN && event != GS_WEBSOCKET_FAILED) {
            assert(event == GS_WEBSOCKET_DATA || piece.n <= GS_WEBSOCKET_CONTROL_MAX);
            add(outcome, piece.bytes, piece.n);
        }
        outcome->data_n += event == GS_WEBSOCKET_DATA ? piece.n : 0;
    }
    assert(outcome->has_ended || !input.n);
    free(copy);
}

/* After a failure, pieces of data before it may have arrived, or not. */
static void check_same(const struct outcome *a, const struct outcome *b)
{
    assert(a->has_ended == b->has_ended && a->code == b->code);
    assert(a->code || (a->hash == b->hash && a->data_n == b->data_n));
}

static void try_frames(const uint8_t *bytes, size_t n, size_t split, unsigned flags)
{
    const struct gs_websocket_parser start = {
        .is_server = flags & 1, .may_compress = flags & 2, .max_message = MESSAGE_MAX};
    struct gs_websocket_parser parsers[] = {start, start, start};
    struct outcome outcomes[3] = {0};
    feed(&parsers[0], &outcomes[0], bytes, n);
    feed(&parsers[1], &outcomes[1], bytes, split);
    feed(&parsers[1], &outcomes[1], bytes + split, n - split);
    for (size_t i = 0; i < n; i++)
        feed(&parsers[2], &outcomes[2], bytes + i, 1);
    check_same(&outcomes[0], &outcomes[1]);
    check_same(&outcomes[0], &outcomes[2]);
}

static void try_message(struct gs_http_text compressed)
{
    struct gs_websocket_coding coding = {.input = compressed, .max = MESSAGE_MAX};
    int result;
    while ((result = gs_websocket_code(&coding)) > 0)
        ;
    assert(result || (coding.n <= MESSAGE_MAX && !coding.output[coding.n]));
    free(coding.output);
}

static void try_handshake(const char *bytes, size_t n)
{
    struct gs_websocket_agreement agreement;
    struct gs_websocket_response response;
    struct gs_websocket_url url;
    char answer[GS_WEBSOCKET_EXTENSION_MAX], *copy = strndup(bytes, n);
    struct gs_http_text text = {bytes, n};
    size_t scanned = 0;
    assert(copy);
    (void)gs_websocket_key_is_valid(text);
    if (gs_websocket_extension_accept(text, &agreement))
        assert(gs_websocket_extension_put(&agreement, answer) <= sizeof answer);
    (void)gs_websocket_extension_agree(text, &agreement);
    if (gs_websocket_url_read(copy, &url))
        assert(url.authority.n && !strpbrk(copy, "\r\n #"));
    if (gs_http_find_head_end(bytes, n, &scanned) == (ssize_t)n)
        (void)!gs_websocket_response_read(text, "dGhlIHNhbXBsZSBub25jZQ==", true, &response);
    free(copy);
}

/* The first byte says what is tried, and the second where the bytes are split. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    const uint8_t *bytes = data + 2;
    size_t n = size - 2;
    struct gs_http_text text = {(const char *)bytes, n};
    if (data[0] & 4)
        try_message(text);
    else if (data[0] & 8)
        try_handshake(text.bytes, n);
    else
        try_frames(bytes, n, data[1] % (n + 1), data[0]);
    return 0;
}
