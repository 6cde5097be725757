#include "http/reply.h"

#include "http/condition.h"
#include "http/range.h"
#include "http/status.h"
#include "http/token.h"

/* Answers up to this length are copied, so that one memory is sent, which costs less than sending
 * two. */
#define COPY_MOST 2048

#define LOCATION_MOST 4096

static void put(const struct gs_http_reply *reply, const char *text)
{
    gs_http_output_put(reply->output, (struct gs_http_text){text, strlen(text)});
}

static void put_decimal(const struct gs_http_reply *reply, uint64_t value)
{
    char digits[GS_HTTP_DECIMAL_MAX];
    gs_http_output_put(reply->output,
                       (struct gs_http_text){digits, gs_http_put_decimal(digits, value)});
}

static void put_start(const struct gs_http_reply *reply, unsigned status)
{
    put(reply, "HTTP/1.1 ");
    put(reply, gs_http_status_line(status));
    put(reply, "\r\n" GS_HTTP_SERVER_FIELD "Date: ");
    gs_http_output_put(reply->output,
                       (struct gs_http_text){gs_http_service_date(reply->service, reply->now_ns),
                                             GS_HTTP_DATE_LENGTH});
    put(reply, "\r\n");
}

static void put_connection(const struct gs_http_reply *reply)
{
    if (!reply->keep_alive)
        put(reply, "Connection: close\r\n");
    else if (!reply->request->minor)
        put(reply, "Connection: keep-alive\r\n");
}

/* RFC 9110, 8.8.2.1: a file's time that is yet to come is replaced by the Date. */
static bool is_from_the_future(const struct gs_http_reply *reply, const struct gs_http_page *page)
{
    return page->stat.st_mtim.tv_sec > gs_http_service_wall(reply->service, reply->now_ns);
}

static void limit_last_modified(const struct gs_http_reply *reply, const struct gs_http_page *page,
                                char *validators)
{
    if (is_from_the_future(reply, page))
        memcpy(validators + GS_HTTP_PAGE_LAST_MODIFIED,
               gs_http_service_date(reply->service, reply->now_ns), GS_HTTP_DATE_LENGTH);
}

/* The connection fields come before the page's validators, which end the head. */
static void put_validators(const struct gs_http_reply *reply, const struct gs_http_page *page)
{
    put_connection(reply);
    char *validators = gs_http_output_extend(reply->output, page->validators.n);
    memcpy(validators, page->validators.bytes, page->validators.n);
    limit_last_modified(reply, page, validators);
}

static bool is_head(const struct gs_http_reply *reply)
{
    return reply->request->method == GS_HTTP_HEAD;
}

static void put_location(const struct gs_http_reply *reply)
{
    struct gs_http_text path = reply->request->target.path;
    struct gs_http_text query = reply->request->target.query;
    while (path.n > 1 && path.bytes[1] == '/') {
        path.bytes++; /* "//name" would be another host */
        path.n--;
    }
    put(reply, "Location: ");
    gs_http_output_put(reply->output, path);
    put(reply, "/");
    if (query.bytes && path.n + query.n < LOCATION_MOST) {
        put(reply, "?");
        gs_http_output_put(reply->output, query);
    }
    put(reply, "\r\n");
}

struct gs_http_replied gs_http_reply_status(const struct gs_http_reply *reply, unsigned status)
{
    if (status == 301 && reply->request->target.path.n > LOCATION_MOST)
        status = 414;
    const char *text = status == 200 ? "" : gs_http_status_line(status);
    size_t n = strlen(text);
    put_start(reply, status);
    if (status == 405 || status == 200)
        put(reply, "Allow: GET, HEAD, OPTIONS\r\n");
    if (status == 301)
        put_location(reply);
    if (status == 503)
        put(reply, "Retry-After: 1\r\n");
    if (n)
        put(reply, "Content-Type: text/plain; charset=utf-8\r\n");
    put(reply, "Content-Length: ");
    put_decimal(reply, n ? n + 1 : 0);
    put(reply, "\r\n");
    put_connection(reply);
    put(reply, "\r\n");
    uint64_t body = reply->output->end;
    if (n && !is_head(reply)) {
        put(reply, text);
        put(reply, "\n");
    }
    return (struct gs_http_replied){status, body};
}

void gs_http_reply_continue(struct gs_http_output *output)
{
    gs_http_output_put(output, GS_HTTP_TEXT("HTTP/1.1 100 Continue\r\n\r\n"));
}

static struct gs_http_replied reply_not_modified(const struct gs_http_reply *reply,
                                                 const struct gs_http_page *page)
{
    put_start(reply, 304);
    put_validators(reply, page);
    return (struct gs_http_replied){304, reply->output->end};
}

static struct gs_http_replied reply_unsatisfiable(const struct gs_http_reply *reply,
                                                  const struct gs_http_page *page)
{
    put_start(reply, 416);
    put(reply, "Content-Range: bytes */");
    put_decimal(reply, (uint64_t)page->stat.st_size);
    put(reply, "\r\nContent-Length: 0\r\n");
    put_validators(reply, page);
    return (struct gs_http_replied){416, reply->output->end};
}

static void put_content_range(const struct gs_http_reply *reply, const struct gs_http_page *page,
                              const struct gs_http_range *range)
{
    put(reply, "Content-Range: bytes ");
    put_decimal(reply, range->first);
    put(reply, "-");
    put_decimal(reply, range->last);
    put(reply, "/");
    put_decimal(reply, (uint64_t)page->stat.st_size);
    put(reply, "\r\n");
}

static struct gs_http_replied reply_range(const struct gs_http_reply *reply,
                                          struct gs_http_page *page,
                                          const struct gs_http_range *range)
{
    uint64_t n = range->last - range->first + 1;
    put_start(reply, 206);
    put(reply, "Content-Type: ");
    gs_http_output_put(reply->output, page->media_type);
    put(reply, "\r\nContent-Length: ");
    put_decimal(reply, n);
    put(reply, "\r\n");
    put_content_range(reply, page, range);
    put_validators(reply, page);
    uint64_t body = reply->output->end;
    gs_http_output_put_body(reply->output, page, range->first, n);
    return (struct gs_http_replied){206, body};
}

static uint64_t decimal_length(uint64_t value)
{
    char digits[GS_HTTP_DECIMAL_MAX];
    return gs_http_put_decimal(digits, value);
}

/* A text that the page is most unlikely to hold. */
static void form_boundary(const struct gs_http_reply *reply, const struct gs_http_page *page,
                          char *out)
{
    uint64_t mix = (reply->now_ns ^ (uint64_t)page->stat.st_ino << 32 ^ (uintptr_t)page) *
                   UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned i = 0; i < 16; i++, mix = mix << 4 | mix >> 60)
        out[i] = "0123456789abcdef"[mix >> 60];
}

#define BOUNDARY_LENGTH (sizeof "gossamer-" - 1 + 16)

/* RFC 9110, 14.6: each part has fields of its own. */
static void put_ranges(const struct gs_http_reply *reply, struct gs_http_page *page,
                       const struct gs_http_range *ranges, size_t count,
                       struct gs_http_text boundary)
{
    for (size_t i = 0; i < count; i++) {
        put(reply, i ? "\r\n--gossamer-" : "--gossamer-");
        gs_http_output_put(reply->output, boundary);
        put(reply, "\r\nContent-Type: ");
        gs_http_output_put(reply->output, page->media_type);
        put(reply, "\r\n");
        put_content_range(reply, page, &ranges[i]);
        put(reply, "\r\n");
        gs_http_output_put_body(reply->output, page, ranges[i].first,
                                ranges[i].last - ranges[i].first + 1);
    }
    put(reply, "\r\n--gossamer-");
    gs_http_output_put(reply->output, boundary);
    put(reply, "--\r\n");
}

/* The length of what put_ranges puts. */
static uint64_t length_of_ranges(const struct gs_http_page *page,
                                 const struct gs_http_range *ranges, size_t count)
{
    uint64_t fixed = BOUNDARY_LENGTH +
                     sizeof "\r\n--\r\nContent-Type: \r\nContent-Range: bytes -/\r\n\r\n" - 1 +
                     page->media_type.n + decimal_length((uint64_t)page->stat.st_size);
    uint64_t n = count * fixed - 2 + BOUNDARY_LENGTH + sizeof "\r\n----\r\n" - 1;
    for (size_t i = 0; i < count; i++)
        n += decimal_length(ranges[i].first) + decimal_length(ranges[i].last) + ranges[i].last -
             ranges[i].first + 1;
    return n;
}

static struct gs_http_replied reply_ranges(const struct gs_http_reply *reply,
                                           struct gs_http_page *page,
                                           const struct gs_http_range *ranges, size_t count)
{
    char memory[16];
    struct gs_http_text boundary = {memory, sizeof memory};
    form_boundary(reply, page, memory);
    put_start(reply, 206);
    put(reply, "Content-Type: multipart/byteranges; boundary=gossamer-");
    gs_http_output_put(reply->output, boundary);
    put(reply, "\r\nContent-Length: ");
    put_decimal(reply, length_of_ranges(page, ranges, count));
    put(reply, "\r\n");
    put_validators(reply, page);
    uint64_t body = reply->output->end;
    put_ranges(reply, page, ranges, count, boundary);
    return (struct gs_http_replied){206, body};
}

/* A page that nobody is sending: its own head gets the date, and head and body are one piece. */
static struct gs_http_replied reply_as_formed(const struct gs_http_reply *reply,
                                              struct gs_http_page *page)
{
    memcpy(page->body - page->head.n + GS_HTTP_PAGE_DATE,
           gs_http_service_date(reply->service, reply->now_ns), GS_HTTP_DATE_LENGTH);
    uint64_t body = reply->output->end + page->head.n;
    gs_http_output_put_page(reply->output, page);
    return (struct gs_http_replied){200, body};
}

/* The whole page, its head as it stands but for the date and the connection. */
static struct gs_http_replied reply_whole(const struct gs_http_reply *reply,
                                          struct gs_http_page *page)
{
    struct gs_http_output *output = reply->output;
    size_t size = (size_t)page->stat.st_size;
    bool as_formed = reply->keep_alive && reply->request->minor;
    bool copied = page->body && !is_head(reply) && as_formed &&
                  gs_http_output_has_room(output, page->head.n + size, 1) &&
                  page->head.n + size <= COPY_MOST;
    if (as_formed && page->body && !is_head(reply) && !copied && gs_http_page_is_idle(page) &&
        !is_from_the_future(reply, page))
        return reply_as_formed(reply, page);
    size_t n = copied      ? page->head.n + size
               : as_formed ? page->head.n
                           : page->head.n - page->validators.n;
    char *head = gs_http_output_extend(output, n);
    memcpy(head, page->head.bytes, n);
    memcpy(head + GS_HTTP_PAGE_DATE, gs_http_service_date(reply->service, reply->now_ns),
           GS_HTTP_DATE_LENGTH);
    if (as_formed)
        limit_last_modified(reply, page, head + (page->head.n - page->validators.n));
    else
        put_validators(reply, page);
    uint64_t body = output->end - (copied ? size : 0);
    if (!copied && !is_head(reply))
        gs_http_output_put_body(output, page, 0, size);
    return (struct gs_http_replied){200, body};
}

/* The ranges asked for. Status 0: there are none, and the whole page is the answer. */
static struct gs_http_replied reply_partial(const struct gs_http_reply *reply,
                                            struct gs_http_page *page)
{
    struct gs_http_range *ranges = reply->service->ranges;
    size_t count = 0;
    switch (
        gs_http_range_parse(reply->request->range, (uint64_t)page->stat.st_size, ranges, &count)) {
    case GS_HTTP_RANGE_SOME:
        return count == 1 ? reply_range(reply, page, ranges)
                          : reply_ranges(reply, page, ranges, count);
    case GS_HTTP_RANGE_UNSATISFIABLE:
        return reply_unsatisfiable(reply, page);
    default:
        return (struct gs_http_replied){0};
    }
}

static struct gs_http_replied reply_made(const struct gs_http_reply *reply,
                                         struct gs_http_page *page)
{
    uint64_t n = (uint64_t)page->stat.st_size;
    put_start(reply, 200);
    put(reply, "Content-Type: ");
    gs_http_output_put(reply->output, page->media_type);
    put(reply, "\r\nCache-Control: no-store\r\nContent-Length: ");
    put_decimal(reply, n);
    put(reply, "\r\n");
    put_connection(reply);
    put(reply, "\r\n");
    uint64_t body = reply->output->end;
    if (!is_head(reply))
        gs_http_output_put_body(reply->output, page, 0, n);
    return (struct gs_http_replied){200, body};
}

struct gs_http_replied gs_http_reply_page(const struct gs_http_reply *reply,
                                          struct gs_http_page *page)
{
    const struct gs_http_request *request = reply->request;
    if (page->is_made)
        return reply_made(reply, page);
    int64_t now = gs_http_service_wall(reply->service, reply->now_ns);
    unsigned status = gs_http_condition(request, page, now);
    if (status == 304)
        return reply_not_modified(reply, page);
    if (status)
        return gs_http_reply_status(reply, status);
    if (request->range.bytes && !is_head(reply) && gs_http_condition_range(request, page, now)) {
        struct gs_http_replied replied = reply_partial(reply, page);
        if (replied.status)
            return replied;
    }
    return reply_whole(reply, page);
}
