#include "http/page.h"

#include "http/date.h"
#include "http/etag.h"
#include "http/media_type.h"
#include "http/token.h"

#include <gossamer/http.h>
#include <gossamer/sys.h>
#include <stdlib.h>

#define HEAD_MAX 512 /* enough for the longest length, date, coding and etag */

static char *put_text(char *at, struct gs_http_text text)
{
    memcpy(at, text.bytes, text.n);
    return at + text.n;
}

static char *put(char *at, const char *text)
{
    return put_text(at, (struct gs_http_text){text, strlen(text)});
}

/* What a page is made of. */
struct parts {
    const struct gs_http_text *path;
    struct gs_http_text fields, media_type;
    const struct stat *stat;
    size_t size; /* instead of st_size */
    unsigned flags;
    enum gs_http_coding coding;
};

/* The tag of a variant differs from that of its page: "...-br". */
static char *put_etag(struct gs_http_page *page, const struct parts *parts, char *at)
{
    char *start = at;
    at += gs_http_etag_format(at, &page->stat, parts->flags & GS_HTTP_PAGE_PORTABLE_ETAG);
    if (parts->coding) {
        at[-1] = '-';
        at = put(put(at, gs_http_coding_name(parts->coding)), "\"");
    }
    page->etag = (struct gs_http_text){start, (size_t)(at - start)};
    return at;
}

static char *put_media_type(struct gs_http_page *page, const struct parts *parts, char *at)
{
    char *start = at;
    at = put_text(at, parts->media_type);
    if (parts->coding)
        at = put(put(at, "\r\nContent-Encoding: "), gs_http_coding_name(parts->coding));
    page->media_type = (struct gs_http_text){start, (size_t)(at - start)};
    return at;
}

/* Not inlined: its stack is not needed while memory is allocated. */
static __attribute__((noinline)) void build_head(struct gs_http_page *page,
                                                 const struct parts *parts, char *start)
{
    char *at = put(start, "HTTP/1.1 200 OK\r\n" GS_HTTP_SERVER_FIELD "Date: ");
    memset(at, ' ', GS_HTTP_DATE_LENGTH);
    at = put(at + GS_HTTP_DATE_LENGTH, "\r\n");
    page->fields = (struct gs_http_text){at, parts->fields.n};
    at = put(put_text(at, parts->fields), "Content-Type: ");
    at = put(put_media_type(page, parts, at), "\r\nContent-Length: ");
    at += gs_http_put_decimal(at, (uint64_t)page->stat.st_size);
    at = put(at, "\r\n");
    char *validators = at;
    at = put(at, "Last-Modified: ");
    gs_http_date_format(page->stat.st_mtim.tv_sec, at);
    at = put(at + GS_HTTP_DATE_LENGTH, "\r\nETag: ");
    at = put(put_etag(page, parts, at), "\r\n");
    if (page->is_negotiated)
        at = put(at, GS_HTTP_VARY_FIELD);
    at = put(at, "Accept-Ranges: bytes\r\n\r\n");
    page->validators = (struct gs_http_text){validators, (size_t)(at - validators)};
    page->head = (struct gs_http_text){start, (size_t)(at - start)};
}

static struct gs_http_page *new_page(const struct parts *parts)
{
    bool with_body = parts->flags & GS_HTTP_PAGE_IN_MEMORY;
    size_t n = parts->path->n + parts->fields.n + parts->media_type.n + HEAD_MAX;
    struct gs_http_page *page = malloc(sizeof *page + n + (with_body ? parts->size : 0));
    if (!page)
        return NULL;
    char *memory = (char *)(page + 1);
    memset(page, 0, sizeof *page);
    page->references = 1;
    page->stat = *parts->stat;
    page->stat.st_size = (off_t)parts->size;
    page->fd = -1;
    page->path = (struct gs_http_text){memory, parts->path->n};
    page->is_joined = with_body;
    page->is_negotiated = parts->flags & GS_HTTP_PAGE_NEGOTIATED;
    page->coding = (uint8_t)parts->coding;
    build_head(page, parts, put_text(memory, *parts->path));
    if (with_body)
        page->body = memory + parts->path->n + page->head.n;
    return page;
}

struct gs_http_page *gs_http_page_new(struct gs_http_text path, const struct stat *stat,
                                      const char *fields, unsigned flags)
{
    const char *type = gs_http_media_type(path);
    struct parts parts = {
        .path = &path,
        .fields = {fields ? fields : "", fields ? strlen(fields) : 0},
        .media_type = {type, strlen(type)},
        .stat = stat,
        .size = (size_t)stat->st_size,
        .flags = flags,
        .coding = flags / GS_HTTP_PAGE_IN(1),
    };
    return new_page(&parts);
}

struct gs_http_page *gs_http_page_new_coded(const struct gs_http_page *page,
                                            enum gs_http_coding coding, struct gs_http_coded *coded,
                                            size_t max_copied, unsigned flags)
{
    bool is_copied = coded->n <= max_copied;
    struct parts parts = {
        .path = &page->path,
        .fields = page->fields,
        .media_type = page->media_type,
        .stat = &page->stat,
        .size = coded->n,
        .flags = flags | GS_HTTP_PAGE_NEGOTIATED | (is_copied ? GS_HTTP_PAGE_IN_MEMORY : 0),
        .coding = coding,
    };
    struct gs_http_page *variant = new_page(&parts);
    if (!variant)
        return NULL;
    if (variant->is_joined) {
        memcpy(variant->body, coded->bytes, coded->n);
    } else {
        variant->coded = coded;
        atomic_fetch_add_explicit(&coded->references, 1, memory_order_relaxed);
        variant->body = coded->bytes;
    }
    return variant;
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

/* Returns whether that was the last reference. Acquire and release: the thread that frees the page
 * sees all accesses of the others. */
static bool drop(struct gs_http_page *page)
{
    return page && atomic_fetch_sub_explicit(&page->references, 1, memory_order_acq_rel) == 1;
}

static void free_page(struct gs_http_page *page)
{
    if (page->fd >= 0) {
        gs_sys_close(page->fd);
        atomic_fetch_sub_explicit(&open_files, 1, memory_order_relaxed);
    }
    gs_http_coded_unref(page->coded);
    free(page->http2_fields);
    free(page);
}

void gs_http_page_unref(struct gs_http_page *page)
{
    if (!drop(page))
        return;
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++)
        if (drop(page->variants[coding]))
            free_page(page->variants[coding]);
    free_page(page);
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
