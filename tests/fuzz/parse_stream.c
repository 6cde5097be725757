/* Prints the results of the library's parsers for streams of requests, for comparison with others.
 *
 * Standard input: streams, each a length of four bytes, little-endian, and that number of
 * bytes. Standard output: a line of JSON for each, texts in hexadecimal. */
#include "http/chunked.h"
#include "http/head_end.h"
#include "http/request.h"
#include "http/token.h"

#include <stdio.h>
#include <stdlib.h>

static void print_text(const char *name, struct gs_http_text text)
{
    printf("%s\"", name);
    for (size_t i = 0; i < text.n; i++)
        printf("%02x", (unsigned char)text.bytes[i]);
    printf("\"");
}

static struct gs_http_text part(const char *from, const char *to)
{
    return (struct gs_http_text){from, (size_t)(to - from)};
}

static void print_fields(struct gs_http_text fields)
{
    const char *at = fields.bytes, *end = fields.bytes + fields.n - 2;
    printf(", \"fields\": [");
    while (at < end) {
        const char *line_end = memchr(at, '\r', (size_t)(end - at));
        const char *colon = memchr(at, ':', (size_t)(line_end - at));
        print_text(at == fields.bytes ? "[" : ", [", part(at, colon));
        print_text(", ", gs_http_trim(part(colon + 1, line_end)));
        printf("]");
        at = line_end + 2;
    }
    printf("]");
}

static void print_request(const struct gs_http_request *request, uint64_t body)
{
    const char *line = request->line.bytes, *end = line + request->line.n;
    const char *target = (const char *)memchr(line, ' ', request->line.n) + 1;
    print_text("{\"method\": ", part(line, target - 1));
    print_text(", \"target\": ", part(target, memchr(target, ' ', (size_t)(end - target))));
    printf(", \"version\": \"1.%c\", \"keep_alive\": %s, \"body\": %llu", end[-1],
           request->keep_alive ? "true" : "false", (unsigned long long)body);
    print_fields(request->fields);
    printf("}");
}

/* Returns the length of the body on the wire; -EPROTO; or -1 if the body is incomplete. Stores the
 * number of its data bytes in *ret_data. */
static ssize_t skip_body(const struct gs_http_request *request, const char *bytes, size_t n,
                         uint64_t *ret_data)
{
    struct gs_http_chunked chunked;
    bool done = false;
    *ret_data = request->content_length;
    if (!request->chunked)
        return n < request->content_length ? -1 : (ssize_t)request->content_length;
    gs_http_chunked_init(&chunked);
    ssize_t consumed = gs_http_chunked_decode(&chunked, bytes, n, &done);
    *ret_data = chunked.total;
    return consumed < 0 || done ? consumed : -1;
}

/* Parse one request. Returns its number of bytes, or 0 at the end of the stream, with the reason in
 * *outcome. */
static size_t parse_one(const char *bytes, size_t n, bool first, const char **outcome)
{
    struct gs_http_options options;
    struct gs_http_request request;
    size_t scanned = 0;
    uint64_t data;
    ssize_t head = gs_http_find_head_end(bytes, n, &scanned);
    gs_http_options_default(&options);
    *outcome = head < 0 ? "refused" : "incomplete";
    if (head <= 0)
        return 0;
    *outcome = "refused";
    if (gs_http_request_parse((struct gs_http_text){bytes, (size_t)head}, &options, &request))
        return 0;
    ssize_t body = skip_body(&request, bytes + head, n - (size_t)head, &data);
    *outcome = body == -1 ? "incomplete" : "refused";
    if (body < 0)
        return 0;
    printf("%s", first ? "" : ", ");
    print_request(&request, data);
    *outcome = "closed";
    return request.keep_alive ? (size_t)(head + body) : 0;
}

static void parse(const char *bytes, size_t n)
{
    const char *outcome;
    bool first = true;
    printf("{\"requests\": [");
    for (;;) {
        while (n >= 2 && bytes[0] == '\r' && bytes[1] == '\n')
            bytes += 2, n -= 2;
        size_t used = parse_one(bytes, n, first, &outcome);
        if (!used)
            break;
        bytes += used;
        n -= used;
        first = false;
    }
    printf("], \"outcome\": \"%s\"}\n", outcome);
}

int main(void)
{
    unsigned char prefix[4];
    while (fread(prefix, 1, 4, stdin) == 4) {
        size_t n =
            prefix[0] | (size_t)prefix[1] << 8 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 24;
        char *bytes = malloc(n + 1);
        if (!bytes || fread(bytes, 1, n, stdin) != n)
            return 1;
        parse(bytes, n);
        free(bytes);
    }
    return 0;
}
