/* The listing of a directory, as a page of HTML or of JSON.
 *
 *     struct gs_http_listing listing = {0};
 *     err = gs_http_listing_read(&source, &listing);
 *     size_t n = gs_http_listing_write(&listing, path, GS_HTTP_LISTING_HTML, NULL);
 *     char *page = malloc(n);
 *     gs_http_listing_write(&listing, path, GS_HTTP_LISTING_HTML, page);
 *     gs_http_listing_done(&listing);
 *
 * It has what the server would serve: no names that begin with a dot, no symbolic links that lead
 * out of the root (unless options allow them), nothing that may not be read, no sockets and
 * devices, and no names that no request can have (control characters, backslashes).
 *
 * Threads: reading waits for the disk, and is done where loads run.
 */
#ifndef GS_HTTP_LISTING_H
#define GS_HTTP_LISTING_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a listing may have, so that the memory of one is limited: a directory with more is not
 * listed. */
#define GS_HTTP_LISTING_ENTRIES_MAX 20000
#define GS_HTTP_LISTING_BYTES_MAX ((size_t)16 << 20)

struct gs_http_listing_entry {
    char *name;
    int64_t modified; /* seconds of the wall clock */
    uint64_t size;
    bool is_directory;
};

/* All zero: empty. */
struct gs_http_listing {
    struct gs_http_listing_entry *entries; /* directories first, each sorted by name */
    size_t count, room;
};

/* The directory, open, and its path below the root, "" or with a slash at its end. */
struct gs_http_listing_source {
    int root_fd, fd;
    const char *path;
    bool dotfiles, follow_symlinks;
};

/* Read the directory into an empty listing, which is to be released also after an error. Returns 0,
 * -ENOMEM, -E2BIG (it has more than GS_HTTP_LISTING_ENTRIES_MAX entries), or an error of
 * getdents(2). Entries that cannot be looked at are left out. */
GS_MUST_CHECK int gs_http_listing_read(const struct gs_http_listing_source *source,
                                       struct gs_http_listing *listing);

/* Add an entry. The name is copied. Returns 0, -ENOMEM or -E2BIG. */
GS_MUST_CHECK int gs_http_listing_add(struct gs_http_listing *listing,
                                      const struct gs_http_listing_entry *entry);

/* Sort as people do, without regard to case, "9" before "10"; directories first. */
void gs_http_listing_sort(struct gs_http_listing *listing);

enum gs_http_listing_format {
    GS_HTTP_LISTING_OFF,
    GS_HTTP_LISTING_HTML,
    GS_HTTP_LISTING_JSON,
};

/* Write the page to out; NULL: only measure it. Returns its length. */
size_t gs_http_listing_write(const struct gs_http_listing *listing, const char *path,
                             enum gs_http_listing_format format, char *out);

/* Release its memory. */
void gs_http_listing_done(struct gs_http_listing *listing);

#endif
