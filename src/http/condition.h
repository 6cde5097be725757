/* Evaluation of preconditions: RFC 9110, 13. */
#ifndef GS_HTTP_CONDITION_H
#define GS_HTTP_CONDITION_H

#include "http/page.h"
#include "http/request.h"

/* Evaluate the preconditions of a GET or HEAD. now: wall-clock seconds. Returns 0 (continue), 304
 * or 412. */
unsigned gs_http_evaluate_preconditions(const struct gs_http_request *request,
                                        const struct gs_http_page *page, int64_t now);

/* Returns whether the Range field applies: there is no If-Range, or it matches this page. A date
 * matches only if the file has not been modified within the last minute. */
bool gs_http_if_range_matches(const struct gs_http_request *request,
                              const struct gs_http_page *page, int64_t now);

#endif
