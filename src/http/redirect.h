/* Redirects of a site: where a path leads, as the value of a Location field. */
#ifndef GS_HTTP_REDIRECT_H
#define GS_HTTP_REDIRECT_H

#include "http/site.h"

/* A longer location is not sent: the status is 414. */
#define GS_HTTP_LOCATION_MAX 4096

/* The first redirect of the site that matches a path below the root. NULL: none. */
const struct gs_http_redirect *gs_http_redirect_find(const struct gs_http_site *site,
                                                     struct gs_http_text path);

/* Put the location that it has for a path, which it matches, and a query, which may be absent.
 * `out` has room for GS_HTTP_LOCATION_MAX bytes. Returns the length; 0: it is too long. */
size_t gs_http_redirect_location(const struct gs_http_redirect *redirect, struct gs_http_text path,
                                 struct gs_http_text query, char *out);

/* The same for "/" and another path below the root. */
size_t gs_http_path_location(struct gs_http_text path, struct gs_http_text query, char *out);

#endif
