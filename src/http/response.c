#include "http/response.h"

#include "http/condition.h"
#include "http/cors.h"
#include "http/host.h"
#include "http/http2.h"
#include "http/range.h"
#include "http/redirect.h"
#include "http/rules.h"
#include "http/status.h"
#include "http/token.h"

/* Responses up to this length are copied into the output: sending one segment costs less than
 * sending two. */
#define COPY_MAX 2048

#define LOCATION_MAX GS_HTTP_LOCATION_MAX
#define HOST_MAX 255

static void put(const struct gs_http_response *response, const char *text)
{
    gs_http_output_put(response->output, (struct gs_http_text){text, strlen(text)});
}

static void put_decimal(const struct gs_http_response *response, uint64_t value)
{
    char digits[GS_HTTP_DECIMAL_MAX];
    gs_http_output_put(response->output,
                       (struct gs_http_text){digits, gs_http_put_decimal(digits, value)});
}

/* Without what a rule says of the file that is not sent. */
static void put_fields_for_error(const struct gs_http_response *response)
{
    struct gs_http_text fields = response->fields, line;
    while (gs_http_rules_next_for_error(&fields, response->service->options.fields, &line))
        gs_http_output_put(response->output, line);
}

static void put_head_start(const struct gs_http_response *response, unsigned status)
{
    put(response, "HTTP/1.1 ");
    put(response, gs_http_status_text(status));
    put(response, "\r\n" GS_HTTP_SERVER_FIELD "Date: ");
    gs_http_output_put(
        response->output,
        (struct gs_http_text){gs_http_service_date(response->service, response->now_ns),
                              GS_HTTP_DATE_LENGTH});
    put(response, "\r\n");
    if (status >= 400 && response->has_page_fields && response->service->site->rule_count)
        put_fields_for_error(response);
    else
        gs_http_output_put(response->output, response->fields);
}

/* The buffer is free again: the fields in it, if any, come first. */
static __attribute__((noinline)) void put_origin(const struct gs_http_response *response)
{
    const struct gs_http_service *service = response->service;
    size_t n = gs_http_cors_origin_fields(service->site->cors, service->wanted.origin,
                                          service->site_fields);
    gs_http_output_put(response->output, (struct gs_http_text){service->site_fields, n});
}

static void put_preflight(const struct gs_http_response *response)
{
    const struct gs_http_service *service = response->service;
    size_t n = gs_http_cors_preflight_fields(service->site->cors, service->site_fields);
    gs_http_output_put(response->output, (struct gs_http_text){service->site_fields, n});
}

/* What depends on the connection and on the request. */
static void put_connection(const struct gs_http_response *response)
{
    if (response->has_origin)
        put_origin(response);
    if (!response->keep_alive)
        put(response, "Connection: close\r\n");
    else if (!response->request->minor)
        put(response, "Connection: keep-alive\r\n");
}

/* RFC 9110, 8.8.2.1: a modification time in the future is replaced by the Date. */
static bool is_in_future(const struct gs_http_response *response, const struct gs_http_page *page)
{
    return page->stat.st_mtim.tv_sec >
           gs_http_service_wall_seconds(response->service, response->now_ns);
}

static void limit_last_modified(const struct gs_http_response *response,
                                const struct gs_http_page *page, char *validators)
{
    if (is_in_future(response, page))
        memcpy(validators + GS_HTTP_PAGE_LAST_MODIFIED,
               gs_http_service_date(response->service, response->now_ns), GS_HTTP_DATE_LENGTH);
}

/* The connection fields precede the page's validators, which end the head. */
static void put_validators(const struct gs_http_response *response, const struct gs_http_page *page)
{
    put_connection(response);
    char *validators = gs_http_output_extend(response->output, page->validators.n);
    memcpy(validators, page->validators.bytes, page->validators.n);
    limit_last_modified(response, page, validators);
}

static bool is_head_request(const struct gs_http_response *response)
{
    return response->request->method == GS_HTTP_HEAD;
}

static size_t escaped_length(struct gs_http_text text)
{
    size_t n = text.n;
    for (size_t i = 0; i < text.n; i++)
        n += (unsigned char)text.bytes[i] >= 0x80 ? 2 : 0;
    return n;
}

/* A URI is ASCII, but a request's target may contain UTF-8. */
static void put_escaped(const struct gs_http_response *response, struct gs_http_text text)
{
    char *out = gs_http_output_extend(response->output, escaped_length(text));
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        if (c >= 0x80) {
            *out++ = '%';
            *out++ = "0123456789ABCDEF"[c >> 4];
            *out++ = "0123456789ABCDEF"[c & 15];
        } else {
            *out++ = (char)c;
        }
    }
}

static void put_query(const struct gs_http_response *response)
{
    struct gs_http_text path = response->request->target.path;
    struct gs_http_text query = response->request->target.query;
    if (!query.bytes || escaped_length(path) + escaped_length(query) >= LOCATION_MAX)
        return;
    put(response, "?");
    put_escaped(response, query);
}

static void put_location(const struct gs_http_response *response)
{
    struct gs_http_text path = response->request->target.path;
    while (path.n > 1 && path.bytes[1] == '/') {
        path.bytes++; /* "//name" would refer to another host */
        path.n--;
    }
    put(response, "Location: ");
    put_escaped(response, path);
    put(response, "/");
    put_query(response);
    put(response, "\r\n");
}

bool gs_http_may_redirect(const struct gs_http_request *request)
{
    struct gs_http_text host = gs_http_site_host(request);
    return host.bytes && gs_http_host_name(host).n <= HOST_MAX;
}

static void put_https_location(const struct gs_http_response *response)
{
    unsigned port = response->service->site->https_port;
    put(response, "Location: https://");
    gs_http_output_put(response->output, gs_http_host_name(gs_http_site_host(response->request)));
    if (port != 443) {
        put(response, ":");
        put_decimal(response, port);
    }
    put_escaped(response, response->request->target.path);
    put_query(response);
    put(response, "\r\n");
}

/* It is for this response alone. */
static void put_found_location(const struct gs_http_response *response)
{
    struct gs_http_text *location = &response->service->wanted.location;
    put(response, "Location: ");
    gs_http_output_put(response->output, *location);
    location->bytes = NULL;
    put(response, "\r\n");
}

/* Those that a status has. */
static void put_fields_of(const struct gs_http_response *response, unsigned status)
{
    if (status == 405 || status == 200)
        put(response, "Allow: GET, HEAD, OPTIONS\r\n");
    if (status == 200 && response->service->site->cors)
        put_preflight(response);
    if (status == 503)
        put(response, "Retry-After: 1\r\n");
    if (status == 401) {
        put(response, "WWW-Authenticate: Basic realm=\"");
        put(response, response->service->realm);
        put(response, "\", charset=\"UTF-8\"\r\n");
    }
}

struct gs_http_response_info gs_http_respond_with_status(const struct gs_http_response *response,
                                                         unsigned status)
{
    const struct gs_http_text *location = &response->service->wanted.location;
    if (!location->bytes && (status == 301 || status == 308) &&
        escaped_length(response->request->target.path) > LOCATION_MAX)
        status = 414;
    const char *text = status == 200 ? "" : gs_http_status_text(status);
    size_t n = strlen(text);
    put_head_start(response, status);
    put_fields_of(response, status);
    if (location->bytes)
        put_found_location(response);
    else if (status == 301)
        put_location(response);
    else if (status == 308)
        put_https_location(response);
    if (status == 406 || response->is_negotiated)
        put(response, GS_HTTP_VARY_FIELD);
    if (n)
        put(response, "Content-Type: text/plain; charset=utf-8\r\n");
    put(response, "Content-Length: ");
    put_decimal(response, n ? n + 1 : 0);
    put(response, "\r\n");
    put_connection(response);
    put(response, "\r\n");
    uint64_t body = response->output->end;
    if (n && !is_head_request(response)) {
        put(response, text);
        put(response, "\n");
    }
    return (struct gs_http_response_info){status, body};
}

void gs_http_respond_continue(struct gs_http_output *output)
{
    gs_http_output_put(output, GS_HTTP_TEXT("HTTP/1.1 100 Continue\r\n\r\n"));
}

static struct gs_http_response_info respond_not_modified(const struct gs_http_response *response,
                                                         const struct gs_http_page *page)
{
    put_head_start(response, 304);
    put_validators(response, page);
    return (struct gs_http_response_info){304, response->output->end};
}

static struct gs_http_response_info respond_unsatisfiable(const struct gs_http_response *response,
                                                          const struct gs_http_page *page)
{
    put_head_start(response, 416);
    put(response, "Content-Range: bytes */");
    put_decimal(response, (uint64_t)page->stat.st_size);
    put(response, "\r\nContent-Length: 0\r\n");
    put_validators(response, page);
    return (struct gs_http_response_info){416, response->output->end};
}

static void put_content_range(const struct gs_http_response *response,
                              const struct gs_http_page *page, const struct gs_http_range *range)
{
    put(response, "Content-Range: bytes ");
    put_decimal(response, range->first);
    put(response, "-");
    put_decimal(response, range->last);
    put(response, "/");
    put_decimal(response, (uint64_t)page->stat.st_size);
    put(response, "\r\n");
}

static struct gs_http_response_info respond_range(const struct gs_http_response *response,
                                                  struct gs_http_page *page,
                                                  const struct gs_http_range *range)
{
    uint64_t n = range->last - range->first + 1;
    put_head_start(response, 206);
    put(response, "Content-Type: ");
    gs_http_output_put(response->output, page->media_type);
    put(response, "\r\nContent-Length: ");
    put_decimal(response, n);
    put(response, "\r\n");
    put_content_range(response, page, range);
    put_validators(response, page);
    uint64_t body = response->output->end;
    gs_http_output_put_body(response->output, page, range->first, n);
    return (struct gs_http_response_info){206, body};
}

static uint64_t decimal_length(uint64_t value)
{
    char digits[GS_HTTP_DECIMAL_MAX];
    return gs_http_put_decimal(digits, value);
}

/* A pseudo-random text, which is very unlikely to occur in the page. */
static void make_boundary(const struct gs_http_response *response, const struct gs_http_page *page,
                          char *out)
{
    uint64_t mix = (response->now_ns ^ (uint64_t)page->stat.st_ino << 32 ^ (uintptr_t)page) *
                   UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned i = 0; i < 16; i++, mix = mix << 4 | mix >> 60)
        out[i] = "0123456789abcdef"[mix >> 60];
}

#define BOUNDARY_LENGTH (sizeof "gossamer-" - 1 + 16)

/* RFC 9110, 14.6: each part has its own fields. */
static void put_ranges(const struct gs_http_response *response, struct gs_http_page *page,
                       const struct gs_http_range *ranges, size_t count,
                       struct gs_http_text boundary)
{
    for (size_t i = 0; i < count; i++) {
        put(response, i ? "\r\n--gossamer-" : "--gossamer-");
        gs_http_output_put(response->output, boundary);
        put(response, "\r\nContent-Type: ");
        gs_http_output_put(response->output, page->media_type);
        put(response, "\r\n");
        put_content_range(response, page, &ranges[i]);
        put(response, "\r\n");
        gs_http_output_put_body(response->output, page, ranges[i].first,
                                ranges[i].last - ranges[i].first + 1);
    }
    put(response, "\r\n--gossamer-");
    gs_http_output_put(response->output, boundary);
    put(response, "--\r\n");
}

/* The number of bytes that put_ranges adds. */
static uint64_t ranges_length(const struct gs_http_page *page, const struct gs_http_range *ranges,
                              size_t count)
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

static struct gs_http_response_info respond_ranges(const struct gs_http_response *response,
                                                   struct gs_http_page *page,
                                                   const struct gs_http_range *ranges, size_t count)
{
    char memory[16];
    struct gs_http_text boundary = {memory, sizeof memory};
    make_boundary(response, page, memory);
    put_head_start(response, 206);
    put(response, "Content-Type: multipart/byteranges; boundary=gossamer-");
    gs_http_output_put(response->output, boundary);
    put(response, "\r\nContent-Length: ");
    put_decimal(response, ranges_length(page, ranges, count));
    put(response, "\r\n");
    put_validators(response, page);
    uint64_t body = response->output->end;
    put_ranges(response, page, ranges, count, boundary);
    return (struct gs_http_response_info){206, body};
}

/* For a page that no output refers to: the date is written into its stored head, and head and body
 * are sent as one segment. */
static struct gs_http_response_info
respond_with_stored_head(const struct gs_http_response *response, struct gs_http_page *page)
{
    memcpy(page->body - page->head.n + GS_HTTP_PAGE_DATE,
           gs_http_service_date(response->service, response->now_ns), GS_HTTP_DATE_LENGTH);
    uint64_t body = response->output->end + page->head.n;
    gs_http_output_put_page(response->output, page, true);
    return (struct gs_http_response_info){200, body};
}

/* The full page, with its stored head except for the date and the connection fields. */
static struct gs_http_response_info respond_full(const struct gs_http_response *response,
                                                 struct gs_http_page *page)
{
    struct gs_http_output *output = response->output;
    size_t size = (size_t)page->stat.st_size;
    bool with_stored_head =
        response->keep_alive && response->request->minor && !response->has_origin;
    bool is_copied = page->is_joined && !is_head_request(response) && with_stored_head &&
                     gs_http_output_has_room(output, page->head.n + size, 1) &&
                     page->head.n + size <= COPY_MAX;
    if (with_stored_head && page->is_joined && !is_head_request(response) && !is_copied &&
        gs_http_page_is_unused(page) && !is_in_future(response, page))
        return respond_with_stored_head(response, page);
    size_t n = is_copied          ? page->head.n + size
               : with_stored_head ? page->head.n
                                  : page->head.n - page->validators.n;
    char *head = gs_http_output_extend(output, n);
    memcpy(head, page->head.bytes, n);
    memcpy(head + GS_HTTP_PAGE_DATE, gs_http_service_date(response->service, response->now_ns),
           GS_HTTP_DATE_LENGTH);
    if (with_stored_head)
        limit_last_modified(response, page, head + (page->head.n - page->validators.n));
    else
        put_validators(response, page);
    uint64_t body = output->end - (is_copied ? size : 0);
    if (!is_copied && !is_head_request(response))
        gs_http_output_put_body(output, page, 0, size);
    return (struct gs_http_response_info){200, body};
}

/* HTTP/2 makes fields of the stored head, except for what depends on the time. Not inlined into
 * what HTTP/1 runs. */
static __attribute__((noinline)) struct gs_http_response_info
refer_to_full(const struct gs_http_response *response, struct gs_http_page *page)
{
    struct gs_http_output *output = response->output;
    uint64_t body = output->end + page->head.n;
    bool has_body = !is_head_request(response);
    gs_http_output_put_page(output, page, has_body && page->is_joined);
    if (has_body && !page->is_joined)
        gs_http_output_put_body(output, page, 0, (uint64_t)page->stat.st_size);
    return (struct gs_http_response_info){200, body};
}

/* The requested ranges. Status 0: the Range field is ignored, and the full page is the response. */
static struct gs_http_response_info respond_partial(const struct gs_http_response *response,
                                                    struct gs_http_page *page)
{
    struct gs_http_range *ranges = response->service->ranges;
    size_t count = 0;
    switch (gs_http_range_parse(response->request->range, (uint64_t)page->stat.st_size, ranges,
                                &count)) {
    case GS_HTTP_RANGE_SOME:
        return count == 1 ? respond_range(response, page, ranges)
                          : respond_ranges(response, page, ranges, count);
    case GS_HTTP_RANGE_UNSATISFIABLE:
        return respond_unsatisfiable(response, page);
    default:
        return (struct gs_http_response_info){0};
    }
}

/* A page without validators, behind the fields that it has before. */
static struct gs_http_response_info put_page(const struct gs_http_response *response,
                                             struct gs_http_page *page, unsigned status)
{
    uint64_t n = (uint64_t)page->stat.st_size;
    put(response, "Content-Type: ");
    gs_http_output_put(response->output, page->media_type);
    put(response, "\r\nContent-Length: ");
    put_decimal(response, n);
    put(response, "\r\n");
    put_connection(response);
    put(response, "\r\n");
    uint64_t body = response->output->end;
    if (!is_head_request(response))
        gs_http_output_put_body(response->output, page, 0, n);
    return (struct gs_http_response_info){status, body};
}

static struct gs_http_response_info respond_generated(const struct gs_http_response *response,
                                                      struct gs_http_page *page)
{
    put_head_start(response, 200);
    put(response, "Cache-Control: no-store\r\n");
    return put_page(response, page, 200);
}

struct gs_http_response_info
gs_http_respond_with_error_page(const struct gs_http_response *response, struct gs_http_page *page,
                                unsigned status)
{
    put_head_start(response, status);
    put_fields_of(response, status);
    if (response->is_negotiated)
        put(response, GS_HTTP_VARY_FIELD);
    return put_page(response, page, status);
}

struct gs_http_response_info gs_http_respond_with_page(const struct gs_http_response *response,
                                                       struct gs_http_page *page)
{
    const struct gs_http_request *request = response->request;
    if (page->is_generated)
        return respond_generated(response, page);
    int64_t now = gs_http_service_wall_seconds(response->service, response->now_ns);
    unsigned status = gs_http_evaluate_preconditions(request, page, now);
    if (status == 304)
        return respond_not_modified(response, page);
    if (status)
        return gs_http_respond_with_status(response, status);
    if (request->range.bytes && !is_head_request(response) &&
        gs_http_if_range_matches(request, page, now)) {
        struct gs_http_response_info info = respond_partial(response, page);
        if (info.status)
            return info;
    }
    return gs_http2_speaks(response->conn) && !response->has_origin ? refer_to_full(response, page)
                                                                    : respond_full(response, page);
}
