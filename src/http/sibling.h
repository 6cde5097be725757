/* Siblings in a load: after a file, or if there is none, the same name with a suffix for each
 * coding is loaded in the same way. */
#ifndef GS_HTTP_SIBLING_H
#define GS_HTTP_SIBLING_H

#include "http/load.h"

/* The media type of the file, by the name without a sibling's suffix. */
struct gs_http_text gs_http_load_media_type(const struct gs_http_load *load);

/* Load siblings, too, and revalidate those of the cached page. Not of what is compressed already,
 * such as pictures: to look for a sibling is to open a file. */
void gs_http_load_expect_siblings(struct gs_http_load *load);

/* The cached page of the file that is being loaded, or NULL. */
struct gs_http_page *gs_http_load_cached(const struct gs_http_load *load);

/* Continue with the next cached page that is open, from this coding on. Returns false if there is
 * none; then the load is at the page itself again. */
bool gs_http_load_find_open(struct gs_http_load *load);

/* Returns whether a sibling is not to be used. One that is older than the file may be of an older
 * version; an empty one is being written. */
bool gs_http_load_is_outdated(const struct gs_http_load *load);

/* There is no index file: look for the directory. */
void gs_http_load_open_directory(struct gs_http_load *load);

/* The file is loaded, or there is none: go on to the next, or complete the load. */
void gs_http_load_complete(struct gs_http_load *load);

#endif
