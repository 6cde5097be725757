#include "http/listing_page.h"

#include "http/date.h"
#include "http/etag.h"
#include "http/hash.h"
#include "http/token.h"

#include <errno.h>
#include <stdlib.h>

#define HEAD_MAX 512 /* enough for all of a head but the fields */

static char *put(char *at, const char *text)
{
    size_t n = strlen(text);
    memcpy(at, text, n);
    return at + n;
}

/* The same entries have the same tag, in each process. */
static size_t put_etag(char *at, struct gs_http_text body)
{
    uint64_t hash = gs_http_hash(body, 0, 0);
    hash = hash << 32 | gs_http_hash(body, ~hash, 0);
    const struct stat state = {.st_ino = hash, .st_size = (off_t)body.n};
    return gs_http_etag_format(at, &state, false);
}

/* "no-cache": a cache asks whether it has changed. */
static void build_head(struct gs_http_page *page, char *start,
                       const struct gs_http_listing_request *request, struct gs_http_text body)
{
    char *at = put(start, "HTTP/1.1 200 OK\r\n" GS_HTTP_SERVER_FIELD "Date: ");
    memset(at, ' ', GS_HTTP_DATE_LENGTH);
    at = put(at + GS_HTTP_DATE_LENGTH, "\r\n");
    page->fields = (struct gs_http_text){at, strlen(request->fields)};
    at = put(at, request->fields);
    at = put(put(put(at, "Content-Type: "), page->media_type.bytes), "\r\nContent-Length: ");
    at += gs_http_put_decimal(at, body.n);
    at = put(at, "\r\n");
    page->validators.bytes = at;
    at = put(at, "Last-Modified: ");
    gs_http_date_format(page->stat.st_mtim.tv_sec, at);
    at = put(at + GS_HTTP_DATE_LENGTH, "\r\nETag: ");
    page->etag = (struct gs_http_text){at, put_etag(at, body)};
    at = put(at + page->etag.n, "\r\nAccept-Ranges: bytes\r\n");
    if (!strcasestr(request->fields, "\r\ncache-control:") &&
        strncasecmp(request->fields, "cache-control:", 14) != 0)
        at = put(at, "Cache-Control: no-cache\r\n");
    at = put(at, request->is_negotiated ? "Vary: Accept\r\n\r\n" : "\r\n");
    page->validators.n = (size_t)(at - page->validators.bytes);
    page->head = (struct gs_http_text){start, (size_t)(at - start)};
}

static struct gs_http_page *make_page(const struct gs_http_listing_request *request,
                                      const struct gs_http_listing *listing, size_t body_n)
{
    const char *path = request->source.path;
    size_t path_n = strlen(path), head_max = strlen(request->fields) + HEAD_MAX;
    struct gs_http_page *page = malloc(sizeof *page + path_n + head_max + body_n);
    if (!page)
        return NULL;
    char *memory = (char *)(page + 1), *body = memory + path_n + head_max;
    memcpy(memory, path, path_n);
    gs_http_listing_write(listing, path, request->format, body);
    const char *media_type =
        request->format == GS_HTTP_LISTING_JSON ? "application/json" : "text/html; charset=utf-8";
    *page = (struct gs_http_page){
        .references = 1,
        .stat = {.st_size = (off_t)body_n,
                 .st_mtim = {.tv_sec = (time_t)(request->wall_ns / GS_SECOND)}},
        .fd = -1,
        .is_listing = true,
        .fresh_ns = GS_HTTP_FRESH_NS,
        .path = {memory, path_n},
        .media_type = {media_type, strlen(media_type)},
        .is_joined = true,
    };
    build_head(page, memory + path_n, request, (struct gs_http_text){body, body_n});
    page->body = memory + path_n + page->head.n; /* behind the head */
    memmove(page->body, body, body_n);
    return page;
}

int gs_http_listing_page_new(const struct gs_http_listing_request *request,
                             struct gs_http_page **ret_page)
{
    struct gs_http_listing listing = {0};
    struct gs_http_page *page = NULL;
    size_t n = 0;
    int err = gs_http_listing_read(&request->source, &listing);
    if (!err)
        n = gs_http_listing_write(&listing, request->source.path, request->format, NULL);
    if (!err && n > GS_HTTP_LISTING_BYTES_MAX)
        err = -E2BIG;
    if (!err && !(page = make_page(request, &listing, n)))
        err = -ENOMEM;
    gs_http_listing_done(&listing);
    if (!err)
        *ret_page = page;
    return err;
}
