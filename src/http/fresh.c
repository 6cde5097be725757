/* Which pages of the cache may be sent without looking at their files. */
#include "http/conn.h"
#include "http/service.h"

/* Freshness of cached pages, in the terms of RFC 9111 and RFC 5861. The age of a page counts from
 * the start of the load that last validated it, so a changed file is seen by requests that arrive
 * GS_HTTP_FRESH_NS later. During a revalidation the stale page serves other requests for another
 * STALE_WHILE_REVALIDATE_NS, so one of many requests checks the file. */
#define STALE_WHILE_REVALIDATE_NS (GS_SECOND / 4)

/* 0 for a page that another worker, with a later time, has validated. */
static uint64_t page_age(const struct gs_http_page *page, uint64_t now_ns)
{
    return now_ns > page->validated_ns ? now_ns - page->validated_ns : 0;
}

static bool is_usable(const struct gs_http_page *page, uint64_t now_ns)
{
    uint64_t age_ns = page_age(page, now_ns);
    return age_ns < page->fresh_ns ||
           (page->is_revalidating && age_ns < page->fresh_ns + STALE_WHILE_REVALIDATE_NS);
}

bool gs_http_is_usable_on_error(const struct gs_http_page *page, uint64_t now_ns)
{
    return page && page_age(page, now_ns) < GS_HTTP_STALE_IF_ERROR_NS;
}

/* Of a fresh page: whether the file has not changed under its descriptor. It is looked at once for
 * all requests of one time, which is that of an iteration of the event loop; the body is compared
 * again where it is sent. Not inlined: its stack is not part of its caller's. */
static __attribute__((noinline)) bool is_unchanged(const struct gs_http_service *service,
                                                   struct gs_http_page *page, uint64_t now_ns)
{
    struct stat stat;
    if (page->fd < 0)
        return true;
    if (!service->options.file_state)
        return false;
    if (page->compared_ns == now_ns)
        return true;
    if (service->options.file_state(page->fd, &stat) ||
        !gs_http_page_is_same_file(&page->stat, &stat))
        return false;
    page->compared_ns = now_ns;
    return true;
}

/* The same for the variants. */
static __attribute__((noinline)) bool are_unchanged(const struct gs_http_service *service,
                                                    const struct gs_http_page *page,
                                                    uint64_t now_ns)
{
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++)
        if (page->variants[coding] && page->variants[coding]->fd >= 0 &&
            !is_unchanged(service, page->variants[coding], now_ns))
            return false;
    return true;
}

static bool is_current(const struct gs_http_service *service, struct gs_http_page *page,
                       uint64_t now_ns)
{
    return is_unchanged(service, page, now_ns) &&
           (!page->is_negotiated || are_unchanged(service, page, now_ns));
}

bool gs_http_is_ready(struct gs_http_service *service, struct gs_http_page *page, uint64_t now_ns)
{
    if (!is_usable(page, now_ns))
        return false;
    if (is_current(service, page, now_ns))
        return true;
    service->wanted.changed = page;
    return false;
}

bool gs_http_find_page(struct gs_http_service *service, uint64_t now_ns)
{
    struct gs_http_wanted *wanted = &service->wanted;
    struct gs_http_page *page =
        wanted->generator ? NULL : gs_http_cache_find(&service->cache, service->site, wanted->path);
    wanted->page = page;
    wanted->is_fresh = page && is_usable(page, now_ns);
    return wanted->is_fresh && page != wanted->changed && is_current(service, page, now_ns);
}
