/* Fuzzes the request parser with any bytes: the end of the head is found for any split, and the
 * parsed values lie within the head and are valid. */
#include "http/head_end.h"
#include "http/host.h"
#include "http/request.h"
#include "http/token.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The copy has exactly this size, so a sanitizer detects overreads. */
static char *copy(const void *bytes, size_t n)
{
    char *memory = malloc(n ? n : 1);
    assert(memory);
    memcpy(memory, bytes, n);
    return memory;
}

static ssize_t find_end(const char *bytes, size_t n)
{
    char *memory = copy(bytes, n);
    size_t scanned = 0;
    ssize_t end = gs_http_find_head_end(memory, n, &scanned);
    free(memory);
    return end;
}

static ssize_t find_end_bytewise(const char *bytes, size_t n)
{
    size_t scanned = 0;
    for (size_t so_far = 1; so_far <= n; so_far++) {
        char *memory = copy(bytes, so_far);
        ssize_t end = gs_http_find_head_end(memory, so_far, &scanned);
        free(memory);
        assert(scanned <= so_far);
        if (end)
            return end;
    }
    return 0;
}

/* Finds the end of the head byte by byte, for comparison. */
static ssize_t find_end_plainly(const char *bytes, size_t n)
{
    const char *end = n >= 4 ? memmem(bytes, n, "\r\n\r\n", 4) : NULL;
    size_t head = end ? (size_t)(end - bytes) + 4 : n;
    for (size_t i = 0; i < head; i++) {
        bool ends_line = bytes[i] == '\r' && (i + 1 == head || bytes[i + 1] == '\n');
        bool is_line_end = bytes[i] == '\n' && i > 0 && bytes[i - 1] == '\r';
        bool is_control = (unsigned char)bytes[i] < 0x20 || bytes[i] == 0x7f;
        if (is_control && bytes[i] != '\t' && !ends_line && !is_line_end)
            return -1;
    }
    return end ? (ssize_t)head : 0;
}

static void check_within(struct gs_http_text full, struct gs_http_text piece)
{
    assert(!piece.n || (piece.bytes >= full.bytes && piece.bytes + piece.n <= full.bytes + full.n));
    for (size_t i = 0; i < piece.n; i++)
        assert(gs_http_is(piece.bytes[i], GS_HTTP_FIELD));
}

static void check_understood(struct gs_http_text head, const struct gs_http_request *request)
{
    const struct gs_http_text *texts[] = {
        &request->host,
        &request->connection,
        &request->range,
        &request->if_range,
        &request->if_match,
        &request->if_none_match,
        &request->referer,
        &request->user_agent,
        &request->if_modified_since,
        &request->if_unmodified_since,
        &request->expect,
        &request->transfer_encoding,
        &request->line,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_within(head, *texts[i]);
}

/* Check the conditions that hold for each request that is not refused. */
static void check_accepted(struct gs_http_text head, const struct gs_http_request *request)
{
    struct gs_http_text fields = request->fields, value;
    unsigned hosts = 0, lengths = 0;
    while (gs_http_field_next(&fields, "host", &value))
        hosts += gs_http_host_is_valid(value);
    assert(hosts == (request->host.bytes != NULL));
    assert(hosts || !request->minor);
    fields = request->fields;
    while (gs_http_field_next(&fields, "content-length", &value))
        lengths++;
    assert(lengths == request->has_length);
    assert(!(request->chunked && request->has_length));
    assert(request->chunked == (request->transfer_encoding.bytes != NULL));
    assert(!request->expects_continue || request->minor);
    assert(fields.n <= 2 && head.n >= 16);
    assert(request->target.form == GS_HTTP_TARGET_AUTHORITY ||
           request->target.form == GS_HTTP_TARGET_ASTERISK || request->target.path.bytes[0] == '/');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    while (size >= 2 && bytes[0] == '\r' && bytes[1] == '\n') {
        bytes += 2;
        size -= 2;
    }
    ssize_t end = find_end(bytes, size);
    assert((end < 0 ? -1 : end) == find_end_plainly(bytes, size));
    assert(end == find_end_bytewise(bytes, size));
    if (end <= 0)
        return 0;
    struct gs_http_options options;
    struct gs_http_request request;
    gs_http_options_default(&options);
    struct gs_http_text head = {copy(bytes, (size_t)end), (size_t)end};
    unsigned status = gs_http_request_parse(head, &options, &request);
    assert(status == 0 || status == 400 || status == 414 || status == 417 || status == 431 ||
           status == 501 || status == 505);
    check_understood(head, &request);
    if (!status)
        check_accepted(head, &request);
    free((void *)head.bytes);
    return 0;
}
