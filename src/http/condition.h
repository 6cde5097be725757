/* Preconditions: RFC 9110, 13. */
#ifndef GS_HTTP_CONDITION_H
#define GS_HTTP_CONDITION_H

#include "http/page.h"
#include "http/request.h"

/* What the preconditions of a GET or HEAD come to: 0 (go on), 304 or 412. now: wall-clock seconds.
 */
unsigned gs_http_condition(const struct gs_http_request *request, const struct gs_http_page *page,
                           int64_t now);

/* The Range field counts: there is no If-Range, or it names this very page. */
bool gs_http_condition_range(const struct gs_http_request *request, const struct gs_http_page *page,
                             int64_t now);

#endif
