/* A page: a file as it was when it was loaded, with the head of its response already built.
 * Immutable once complete, except for the Date in its head, which is updated while no output refers
 * to the page, and for validated_ns, used_ns, compared_ns, is_revalidating, http2_fields, its size,
 * pending, choice, variants, fresh_ns and the links, which belong to the cache that contains it. */
#ifndef GS_HTTP_PAGE_H
#define GS_HTTP_PAGE_H

#include "http/coding.h"
#include "http/text.h"

#include <gossamer/clock.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>

/* stale-if-error (RFC 5861): the age up to which a page is served although it cannot be validated,
 * because the kernel lacks descriptors or memory. */
#define GS_HTTP_STALE_IF_ERROR_NS (60 * GS_SECOND)

struct gs_http_site;

struct gs_http_page {
    atomic_uint references;
    uint32_t hash;
    struct gs_http_page *next_same_bucket;
    struct gs_http_page *newer, *older; /* by used_ns */
    uint64_t validated_ns;              /* when it was last known to match the file */
    uint64_t used_ns;                   /* when it was last validated, or served stale */
    uint64_t fresh_ns;                  /* how long it may be served after validated_ns */
    uint64_t compared_ns;               /* when its open file was last compared with it, or 0 */
    bool is_revalidating;               /* a load of it has started since validated_ns */

    struct stat stat;
    int fd;            /* of a file that is too large to be kept in memory; otherwise -1 */
    bool is_settled;   /* it was read so long after the last change that a later one shows */
    bool is_quiet;     /* it is not logged, and not counted for the connection */
    bool is_generated; /* not a file: always sent in full, without validators, and not cached */
    bool is_listing;   /* of a directory */
    bool is_joined;    /* the body is behind the head */

    /* Variants of the content, in other codings (variant.h). */
    bool is_negotiated;   /* a response depends on Accept-Encoding */
    bool is_absent;       /* there is no file, but there are siblings: only these can be sent */
    bool is_sibling;      /* a variant that is a file of its own */
    uint8_t coding;       /* enum gs_http_coding: that of this page */
    uint8_t compressible; /* the set of codings that the compressor has for it */
    uint8_t pending;      /* of these: what may still be asked for */
    uint64_t choice_id;   /* of struct gs_http_accepting: whose choice is below; 0: nobody's */
    struct gs_http_page *choice;
    struct gs_http_page *variants[GS_HTTP_CODINGS]; /* references; NULL: none, as of the first */

    const struct gs_http_site *site; /* borrowed; NULL in tests only */
    struct gs_http_text path;        /* below its root, as gs_http_path_normalise returns it */

    /* Parts of a response. */
    struct gs_http_text fields;     /* those that the options and the site's rules add */
    struct gs_http_text media_type; /* also the field Content-Encoding */
    struct gs_http_text validators; /* Last-Modified, ETag, Vary, Accept-Ranges, the empty line */
    struct gs_http_text etag;
    struct gs_http_text head; /* all of a 200 response's, with a blank Date at GS_HTTP_PAGE_DATE */
    char *body;               /* NULL: in fd */
    struct gs_http_coded *coded; /* a reference to what contains the body; NULL: this page does */
    struct gs_http2_fields *http2_fields; /* those of the head (http2/fields.c); NULL: not made */
    size_t http2_fields_n;                /* their memory */
};

#define GS_HTTP_SERVER_FIELD "Server: gossamer\r\n"
#define GS_HTTP_VARY_FIELD "Vary: Accept-Encoding\r\n"
#define GS_HTTP_PAGE_LAST_MODIFIED (sizeof "Last-Modified: " - 1) /* in the validators */
#define GS_HTTP_PAGE_DATE (sizeof "HTTP/1.1 200 OK\r\n" GS_HTTP_SERVER_FIELD "Date: " - 1)

enum {
    GS_HTTP_PAGE_IN_MEMORY = 1,     /* with room for its body */
    GS_HTTP_PAGE_PORTABLE_ETAG = 2, /* from what copies of the file have in common */
    GS_HTTP_PAGE_NEGOTIATED = 4,    /* a response depends on Accept-Encoding */
};
#define GS_HTTP_PAGE_IN(coding) ((unsigned)(coding) << 4) /* the file is in this coding */

/* Create a page for a file with this state; fd is -1. fields: lines for its head, or NULL. Returns
 * NULL if memory is exhausted. */
struct gs_http_page *gs_http_page_new(struct gs_http_text path, const struct stat *stat,
                                      const char *fields, unsigned flags);

/* Create a page of the same file in another coding. A body of at most max_copied bytes is copied,
 * so that it is sent with the head; of a longer one, the page takes a reference of its own. The
 * caller sets its site. flags: GS_HTTP_PAGE_PORTABLE_ETAG. */
struct gs_http_page *gs_http_page_new_coded(const struct gs_http_page *page,
                                            enum gs_http_coding coding, struct gs_http_coded *coded,
                                            size_t max_copied, unsigned flags);

static inline struct gs_http_page *gs_http_page_ref(struct gs_http_page *page)
{
    atomic_fetch_add_explicit(&page->references, 1, memory_order_relaxed);
    return page;
}

/* Returns whether only the cache refers to the page, so its head may be written to. The page must
 * be used by one worker only. */
static inline bool gs_http_page_is_unused(struct gs_http_page *page)
{
    return atomic_load_explicit(&page->references, memory_order_relaxed) == 1;
}

/* The file's content is sent from this descriptor, which becomes the page's. */
void gs_http_page_set_fd(struct gs_http_page *page, int fd);

/* The last reference frees the page and closes its descriptor. NULL is accepted. */
void gs_http_page_unref(struct gs_http_page *page);

/* Returns whether both are the same state of the same file. */
bool gs_http_page_is_same_file(const struct stat *a, const struct stat *b);

/* Returns whether the file, of which both are states, has the same content: it may have been
 * removed or replaced since, which changes st_ctim and st_nlink. */
bool gs_http_page_has_same_content(const struct stat *a, const struct stat *b);

/* Returns the time since the last change of the file, or until it if the clock was set back. */
uint64_t gs_http_page_unchanged_ns(const struct stat *stat, uint64_t wall_ns);

/* A file that has not changed for so long is settled. A file system may give two changes the same
 * time if they follow each other at once: so a file that was read soon after a change may have
 * changed again, and does not show it. */
#define GS_HTTP_SETTLED_NS (2 * GS_SECOND)

/* How long a page is served without looking at its file. A small file that was read while a program
 * writes to it, in several parts, is not served for longer than it had been unchanged. */
#define GS_HTTP_FRESH_NS (GS_SECOND / 2)

#endif
