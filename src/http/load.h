/* A load: finding a file and reading it, as a sequence of operations that the caller performs. */
#ifndef GS_HTTP_LOAD_H
#define GS_HTTP_LOAD_H

#include "http/guard.h"
#include "http/page.h"
#include "http/site.h"

#include <gossamer/http.h>

/* The current operation.
 *
 *   OPEN --> STAT --> READ* --> VERIFY --> CLOSE      a small file
 *    |         |        ^          |                  it has changed meanwhile: read again, or sent
 *    |         |        `----------'--> COMPLETE      as a large one
 *    |         |--> COMPLETE                          a large file: its descriptor stays open
 *    |         `--> CLOSE                             a directory, an unchanged page, or an error
 *    `--> OPEN_DIRECTORY --> CLOSE                    no index file: does the directory exist?
 *
 *   CHECK --> COMPLETE                                a fresh page of an unchanged large file
 *     `--> OPEN                                       it has changed, or the page is not fresh
 *
 *   OPEN, OPEN_DIRECTORY --> RESOLVE* --> again       a symbolic link seems to lead out of the root
 *
 *   OPEN_DIRECTORY --> LIST --> CLOSE                 directories are listed
 *   COMPLETE --> OPEN ...                             its siblings, one after another (variant.h)
 *
 *   GENERATE --> COMPLETE                             a generated page
 *
 *   AUTHENTICATE --> COMPLETE                         credentials are verified (guard.h) */
enum gs_http_load_step {
    GS_HTTP_LOAD_OPEN,
    GS_HTTP_LOAD_STAT,
    GS_HTTP_LOAD_READ,
    GS_HTTP_LOAD_VERIFY,
    GS_HTTP_LOAD_CLOSE,
    GS_HTTP_LOAD_OPEN_DIRECTORY,
    GS_HTTP_LOAD_CHECK,
    GS_HTTP_LOAD_RESOLVE,
    GS_HTTP_LOAD_GENERATE,
    GS_HTTP_LOAD_LIST,
    GS_HTTP_LOAD_AUTHENTICATE,
    GS_HTTP_LOAD_COMPLETE,
};

/* What a request's load is for; several may follow each other (substitute.c). */
enum gs_http_attempt {
    GS_HTTP_ATTEMPT_FILE,       /* what the request asks for */
    GS_HTTP_ATTEMPT_HTML,       /* the same with .html behind it, before */
    GS_HTTP_ATTEMPT_FALLBACK,   /* what the site has in its place */
    GS_HTTP_ATTEMPT_ERROR_PAGE, /* the page for failed_status */
};

struct gs_http_load {
    uint8_t step;
    uint8_t attempt;
    uint16_t failed_status;
    uint8_t attempts;
    uint8_t resumed_step; /* after RESOLVE */
    uint8_t parents;      /* names that RESOLVE has cut from the end of the path */
    bool is_directory;    /* the requested path ends with a slash: load the index file */
    bool follow_symlinks; /* also those that lead out of the root */
    bool is_taken;        /* by gs_http_conn_take_load */
    bool is_fresh;        /* the cached page: its path need not be looked up again */
    bool portable_etags;
    bool dotfiles;
    uint8_t listing;     /* enum gs_http_listing_format: how a directory is listed; 0: it is not */
    bool has_siblings;   /* possibly: they are to be loaded, too */
    bool knows_siblings; /* that was done */
    bool lacks_siblings; /* possibly: one could not be opened */
    uint8_t coding;      /* of the file that is being loaded */
    uint8_t compressor_codings;
    const char *fields; /* of the head of its page */
    unsigned status;    /* 200: page is complete; 301: a directory; or the status to refuse with */
    enum gs_http_refusal refusal;    /* if that is 403 or 404 */
    const struct gs_http_site *site; /* borrowed */
    int root_fd, fd;
    uint64_t started_ns; /* the loaded state of the file is as of this time or later */
    uint64_t wall_ns;    /* the same, by the wall clock */
    size_t max_cached_file;
    size_t read;
    struct gs_http_page *cached;                           /* to be revalidated; NULL: none */
    struct gs_http_page *page;                             /* the result */
    struct gs_http_page *siblings[GS_HTTP_CODINGS];        /* the results */
    struct gs_http_page *cached_siblings[GS_HTTP_CODINGS]; /* to be revalidated */
    const struct gs_http_generator *generator;             /* NULL: a file */
    int work_err;                                          /* of LIST and AUTHENTICATE */
    struct gs_http_pass *pass; /* to be verified: then it is no load of a file; NULL: none */
    struct stat stat;
    char *target;             /* the path to resolve, then to open, instead of `file`; NULL: none */
    struct gs_http_text path; /* below the root, without the index file's name */
    size_t file_n; /* the length of the path to open, without that of a sibling's suffix */
    char file[];   /* the path to open */
};

/* path: normalised; copied. cached: NULL or the cached page, of which the load takes a reference of
 * its own, and of its siblings. Returns NULL if memory is exhausted. */
struct gs_http_load *gs_http_load_new(struct gs_http_text path, bool is_directory,
                                      const struct gs_http_site *site,
                                      const struct gs_http_options *options,
                                      struct gs_http_page *cached);

/* The same for a generated page. */
struct gs_http_load *gs_http_load_new_generated(struct gs_http_text path,
                                                const struct gs_http_site *site,
                                                const struct gs_http_generator *generator);

/* The same that only verifies credentials: its status becomes 200, 401 or 503. */
struct gs_http_load *gs_http_load_new_pass(const struct gs_http_site *site,
                                           const struct gs_http_pass *pass);
/* The cached page is fresh, but it or one of its siblings is open: only compare these with their
 * files, if that suffices. */
void gs_http_load_check_only(struct gs_http_load *load);

/* NULL is accepted. */
void gs_http_load_free(struct gs_http_load *load);

#endif
