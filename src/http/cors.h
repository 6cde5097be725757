/* Cross-origin requests: which pages of other sites may read responses (CORS, in the Fetch
 * standard). */
#ifndef GS_HTTP_CORS_H
#define GS_HTTP_CORS_H

#include "http/site.h"

/* The origin of the request, if its site lists it, so that the response depends on it; no bytes:
 * there is none. */
struct gs_http_text gs_http_cors_origin(const struct gs_http_site *site,
                                        const struct gs_http_request *request);

/* Put the fields of each response of the site into `out`. Returns their length, at most
 * GS_HTTP_CORS_MAX. */
size_t gs_http_cors_fields(const struct gs_http_site *site, char *out);

/* The same for those of a response to this origin. */
size_t gs_http_cors_origin_fields(const struct gs_http_cors *cors, struct gs_http_text origin,
                                  char *out);

/* The same for those of a response to OPTIONS. */
size_t gs_http_cors_preflight_fields(const struct gs_http_cors *cors, char *out);

/* With lists of 255 bytes each. */
#define GS_HTTP_CORS_MAX 640
#define GS_HTTP_CORS_LINES 2

#endif
