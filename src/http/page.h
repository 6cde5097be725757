/* A page: a file as it was when it was loaded, with the head of its answer already formed.
 * Immutable once it is complete, but for the Date in its head, which is renewed while nobody is
 * sending the page, and for checked_ns, is_being_checked and the links, which belong to the cache that holds it. */
#ifndef GS_HTTP_PAGE_H
#define GS_HTTP_PAGE_H

#include "http/text.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>

struct gs_http_page {
    atomic_uint references;
    uint32_t hash;
    struct gs_http_page *next_same_bucket;
    struct gs_http_page *newer, *older; /* by checked_ns */
    uint64_t checked_ns;                /* when it was last known to be the file's present state */
    bool is_being_checked;              /* since then a load of it was begun */

    struct stat stat;
    int fd;       /* of a file that is too large to be kept in memory; otherwise -1 */
    bool is_made; /* no file: answered whole, without validators, and not cached */

    struct gs_http_text path;       /* below the root, as gs_http_path_normalise gives it */
    struct gs_http_text media_type; /* the parts of an answer */
    struct gs_http_text
        validators; /* the fields Last-Modified, ETag and Accept-Ranges, and the empty line */
    struct gs_http_text etag;
    struct gs_http_text
        head;   /* the whole of 200's, its Date to be filled in at GS_HTTP_PAGE_DATE */
    char *body; /* behind the head; NULL: in fd */
};

#define GS_HTTP_SERVER_FIELD "Server: gossamer\r\n"
#define GS_HTTP_PAGE_LAST_MODIFIED (sizeof "Last-Modified: " - 1) /* in the validators */
#define GS_HTTP_PAGE_DATE (sizeof "HTTP/1.1 200 OK\r\n" GS_HTTP_SERVER_FIELD "Date: " - 1)

/* A page for the file of this state, with room for its body if with_body; fd -1. Returns NULL
 * without memory. */
struct gs_http_page *gs_http_page_new(struct gs_http_text path, const struct stat *stat,
                                      bool with_body);

static inline struct gs_http_page *gs_http_page_ref(struct gs_http_page *page)
{
    atomic_fetch_add_explicit(&page->references, 1, memory_order_relaxed);
    return page;
}

/* Nobody but the cache holds it: its head may be written to. Only of a page that one worker alone uses. */
static inline bool gs_http_page_is_idle(struct gs_http_page *page)
{
    return atomic_load_explicit(&page->references, memory_order_relaxed) == 1;
}

/* The last reference frees the page and closes its descriptor. NULL is accepted. */
void gs_http_page_unref(struct gs_http_page *page);

/* Both are the same state of the same file. */
bool gs_http_page_same_file(const struct stat *a, const struct stat *b);

#endif
