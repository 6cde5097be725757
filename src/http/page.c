#include "http/page.h"

#include "http/date.h"
#include "http/etag.h"
#include "http/media_type.h"
#include "http/token.h"

#include <gossamer/http.h>
#include <gossamer/sys.h>
#include <stdlib.h>

#define HEAD_MAX 512 /* enough for the longest media type, length, date and etag */

static char *put(char *at, const char *text)
{
    size_t n = strlen(text);
    memcpy(at, text, n);
    return at + n;
}

static void build_head(struct gs_http_page *page, char *start, const char *fields, unsigned flags)
{
    char *at = put(start, "HTTP/1.1 200 OK\r\n" GS_HTTP_SERVER_FIELD "Date: ");
    memset(at, ' ', GS_HTTP_DATE_LENGTH);
    at = put(at + GS_HTTP_DATE_LENGTH, "\r\n");
    page->fields.bytes = at;
    at = put(at, fields);
    page->fields.n = (size_t)(at - page->fields.bytes);
    at = put(at, "Content-Type: ");
    at = put(at, page->media_type.bytes);
    at = put(at, "\r\nContent-Length: ");
    at += gs_http_put_decimal(at, (uint64_t)page->stat.st_size);
    at = put(at, "\r\n");
    char *validators = at;
    at = put(at, "Last-Modified: ");
    gs_http_date_format(page->stat.st_mtim.tv_sec, at);
    at = put(at + GS_HTTP_DATE_LENGTH, "\r\nETag: ");
    page->etag.bytes = at;
    page->etag.n = gs_http_etag_format(at, &page->stat, flags & GS_HTTP_PAGE_PORTABLE_ETAG);
    at = put(at + page->etag.n, "\r\nAccept-Ranges: bytes\r\n\r\n");
    page->validators = (struct gs_http_text){validators, (size_t)(at - validators)};
    page->head = (struct gs_http_text){start, (size_t)(at - start)};
}

struct gs_http_page *gs_http_page_new(struct gs_http_text path, const struct stat *stat,
                                      const char *fields, unsigned flags)
{
    if (!fields)
        fields = "";
    bool with_body = flags & GS_HTTP_PAGE_IN_MEMORY;
    size_t body_n = with_body ? (size_t)stat->st_size : 0;
    struct gs_http_page *page = malloc(sizeof *page + path.n + strlen(fields) + HEAD_MAX + body_n);
    if (!page)
        return NULL;
    char *memory = (char *)(page + 1);
    memcpy(memory, path.bytes, path.n);
    const char *media_type = gs_http_media_type(path);
    *page = (struct gs_http_page){
        .references = 1,
        .stat = *stat,
        .fd = -1,
        .path = {memory, path.n},
        .media_type = {media_type, strlen(media_type)},
    };
    build_head(page, memory + path.n, fields, flags);
    if (with_body)
        page->body = memory + path.n + page->head.n;
    return page;
}

/* Pages with a descriptor. */
static _Atomic(uint64_t) open_files;

uint64_t gs_http_open_files(void)
{
    return atomic_load_explicit(&open_files, memory_order_relaxed);
}

void gs_http_page_set_fd(struct gs_http_page *page, int fd)
{
    page->fd = fd;
    atomic_fetch_add_explicit(&open_files, 1, memory_order_relaxed);
}

void gs_http_page_unref(struct gs_http_page *page)
{
    /* Acquire and release: the thread that frees the page sees all accesses of the others. */
    if (!page || atomic_fetch_sub_explicit(&page->references, 1, memory_order_acq_rel) != 1)
        return;
    if (page->fd >= 0) {
        gs_sys_close(page->fd);
        atomic_fetch_sub_explicit(&open_files, 1, memory_order_relaxed);
    }
    free(page->http2_fields);
    free(page);
}

static bool is_same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* A program that writes to a file and sets its modification time back can change only st_ctim. */
bool gs_http_page_has_same_content(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && is_same_time(a->st_mtim, b->st_mtim) &&
           (a->st_nlink != b->st_nlink || is_same_time(a->st_ctim, b->st_ctim));
}

bool gs_http_piece_is_current(const struct gs_http_piece *piece, const struct stat *stat)
{
    return gs_http_page_has_same_content(&piece->page->stat, stat);
}

bool gs_http_page_is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           gs_http_page_has_same_content(a, b) && is_same_time(a->st_ctim, b->st_ctim);
}

uint64_t gs_http_page_unchanged_ns(const struct stat *stat, uint64_t wall_ns)
{
    uint64_t changed_ns =
        (uint64_t)stat->st_ctim.tv_sec * GS_SECOND + (uint64_t)stat->st_ctim.tv_nsec;
    return wall_ns > changed_ns ? wall_ns - changed_ns : changed_ns - wall_ns;
}
