/* Variants: the content of a page in other codings. They hang from the page of the content itself,
 * in one place of the cache: they are found, validated, limited and expire with it. Each is a page
 * of its own, with a head and an entity tag, so that conditions, ranges and HTTP/2 know nothing of
 * codings.
 *
 *     page  "a.css"  --variants--> [br]    "a.css.br", a sibling: a file of its own
 *                                  [gzip]  "a.css.gz"
 *
 * A sibling is loaded with its page. A page without siblings is compressed, if that is enabled:
 * once a client accepts a coding that is preferred to those at hand, the compressor is asked for it
 * at each request, until it has the body; meanwhile the best that is there is sent. */
#ifndef GS_HTTP_VARIANT_H
#define GS_HTTP_VARIANT_H

#include "http/request.h"
#include "http/service.h"

/* Choose what the client is sent of a page that is negotiated: the page or a variant, borrowed like
 * the page. Of those with the highest weight, it is the smallest. Returns NULL if the client
 * accepts none (406); if the page is all there is, it is sent to those, too. */
struct gs_http_page *gs_http_choose(struct gs_http_service *service,
                                    const struct gs_http_request *request,
                                    struct gs_http_page *page, uint64_t now_ns);

/* Give a page, to which the caller has a reference, the siblings that were loaded for it, by
 * coding; NULL: there is none. If the cache has no room for them, the page is removed from it. */
void gs_http_set_siblings(struct gs_http_cache *cache, struct gs_http_page *page,
                          struct gs_http_page *const siblings[GS_HTTP_CODINGS]);

#endif
