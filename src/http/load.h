/* Finding a file and reading it: a sequence of operations that somebody else carries out. */
#ifndef GS_HTTP_LOAD_H
#define GS_HTTP_LOAD_H

#include "http/page.h"

#include <gossamer/http.h>

/* What has been asked for last.
 *
 *   OPEN --> STAT --> READ* --> CLOSE --> COMPLETE        a small file
 *    |         |--> COMPLETE                              a large one: its descriptor stays open
 *    |         `--> CLOSE                                 a directory; or as `known` says it is; or
 * failed
 *    `--> OPEN_DIRECTORY --> CLOSE                        no index: is there a directory at all?
 *
 *   MAKE --> COMPLETE                                     no file: a page is made */
enum gs_http_load_step {
    GS_HTTP_LOAD_OPEN,
    GS_HTTP_LOAD_STAT,
    GS_HTTP_LOAD_READ,
    GS_HTTP_LOAD_CLOSE,
    GS_HTTP_LOAD_OPEN_DIRECTORY,
    GS_HTTP_LOAD_MAKE,
    GS_HTTP_LOAD_COMPLETE,
};

struct gs_http_load {
    uint8_t step;
    uint8_t tries;
    bool directory;   /* asked for with a slash at its end: the index file is wanted */
    bool any_symlink; /* also those that lead out of the root */
    bool taken;
    unsigned status; /* 200: page is complete; 301: a directory; or the status to refuse with */
    int root_fd, fd;
    uint64_t started_ns; /* the file was in the state that is found then, or later */
    size_t cached_file_most;
    size_t read;
    struct gs_http_page *known;        /* the state in the cache, if any */
    struct gs_http_page *page;         /* the result */
    const struct gs_http_maker *maker; /* NULL: a file */
    struct stat stat;
    struct gs_http_text path; /* below the root, without the index file's name */
    char file[];              /* what is opened */
};

/* path: normalised; copied. known: NULL or the cached page, of which the load takes a reference of
 * its own. NULL without memory. */
struct gs_http_load *gs_http_load_new(struct gs_http_text path, bool directory, int root_fd,
                                      const struct gs_http_options *options,
                                      struct gs_http_page *known);

/* The same for a page that is to be made. */
struct gs_http_load *gs_http_load_new_made(struct gs_http_text path,
                                           const struct gs_http_maker *maker);

/* NULL is accepted. */
void gs_http_load_free(struct gs_http_load *load);

#endif
