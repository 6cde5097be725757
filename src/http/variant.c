#include "http/variant.h"

#include <errno.h>

/* ---- The choice ---- */

/* Returns what is preferred to the best that is there, among those to be asked for. */
static enum gs_http_coding preferred(const struct gs_http_accepted *accepted, unsigned codings)
{
    enum gs_http_coding best = GS_HTTP_IN_IDENTITY;
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++)
        if (codings & GS_HTTP_CODING_BIT(coding) &&
            (!best || accepted->weights[coding] > accepted->weights[best]))
            best = (enum gs_http_coding)coding;
    return best;
}

/* The file of a page in memory was settled when it was read; the other is read later. */
static bool is_settled(const struct gs_http_service *service, const struct gs_http_page *page,
                       uint64_t now_ns)
{
    return page->fd < 0 ? page->is_settled
                        : gs_http_page_unchanged_ns(&page->stat, now_ns + service->wall_offset_ns) >
                              GS_HTTP_SETTLED_NS;
}

/* Ask the compressor. Returns the new variant, or NULL: there is none, or none yet. */
static __attribute__((noinline)) struct gs_http_page *ask_for(struct gs_http_service *service,
                                                              struct gs_http_page *page,
                                                              enum gs_http_coding coding,
                                                              uint64_t now_ns)
{
    const struct gs_http_options *options = &service->options;
    struct gs_http_coded *coded;
    if (!is_settled(service, page, now_ns))
        return NULL;
    int err = options->compressor->get(page, coding, &coded, options->compressor->data);
    if (err) {
        page->pending = err == -EAGAIN ? page->pending : 0;
        return NULL;
    }
    page->pending &= (uint8_t)~GS_HTTP_CODING_BIT(coding);
    struct gs_http_page *variant =
        gs_http_page_new_coded(page, coding, coded, options->max_cached_file,
                               options->portable_etags ? GS_HTTP_PAGE_PORTABLE_ETAG : 0);
    gs_http_coded_unref(coded);
    if (!variant)
        return NULL;
    variant->site = page->site;
    bool is_kept = gs_http_cache_set_variant(&service->cache, page, coding, variant);
    gs_http_page_unref(variant);
    return is_kept ? variant : NULL;
}

static bool is_better(const struct gs_http_page *page, const struct gs_http_page *best,
                      const struct gs_http_accepted *accepted)
{
    uint16_t weight = accepted->weights[page->coding];
    if (!weight || !best)
        return weight;
    uint16_t best_weight = accepted->weights[best->coding];
    return weight > best_weight ||
           (weight == best_weight && page->stat.st_size < best->stat.st_size);
}

static bool has_variants(const struct gs_http_page *page)
{
    return page->variants[GS_HTTP_IN_BR] || page->variants[GS_HTTP_IN_ZSTD] ||
           page->variants[GS_HTTP_IN_GZIP];
}

/* Also for later requests with the same Accept-Encoding, unless the compressor is to be asked. */
static struct gs_http_page *choose(struct gs_http_service *service,
                                   const struct gs_http_accepting *accepting,
                                   struct gs_http_page *page, uint64_t now_ns)
{
    const struct gs_http_accepted *accepted = &accepting->accepted;
    struct gs_http_page *best =
        page->is_absent || !accepted->weights[GS_HTTP_IN_IDENTITY] ? NULL : page;
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++)
        if (page->variants[coding] && is_better(page->variants[coding], best, accepted))
            best = page->variants[coding];
    unsigned wanted = page->pending & accepted->above[best ? best->coding : GS_HTTP_IN_IDENTITY];
    if (wanted) {
        struct gs_http_page *variant = ask_for(service, page, preferred(accepted, wanted), now_ns);
        return variant ? variant : best ? best : page;
    }
    if (!best && !page->is_absent && !has_variants(page) && !page->pending)
        best = page;
    page->choice_id = accepting->id;
    page->choice = best;
    return best;
}

/* ---- Accept-Encoding ---- */

static __attribute__((noinline)) const struct gs_http_accepting *
parse(struct gs_http_service *service, const struct gs_http_request *request)
{
    struct gs_http_text value = request->accept_encoding;
    struct gs_http_accepting *accepting = &service->accepting;
    bool is_kept = !request->has_more_encodings && value.n <= sizeof accepting->value;
    if (is_kept)
        accepting = &service->acceptings[value.n % GS_HTTP_ACCEPTINGS];
    accepting->accepted = gs_http_accepted_in(request->fields);
    accepting->id = ++service->accepting_id;
    accepting->size = is_kept ? (uint8_t)(value.n + 1) : 0;
    if (is_kept)
        memcpy(accepting->value, value.bytes, value.n);
    return accepting;
}

static const struct gs_http_accepting *find_accepting(struct gs_http_service *service,
                                                      const struct gs_http_request *request)
{
    static const struct gs_http_accepting any = {
        .accepted = GS_HTTP_ACCEPTED_ANY, .id = UINT64_MAX, .size = 1};
    struct gs_http_text value = request->accept_encoding;
    const struct gs_http_accepting *accepting = &service->acceptings[value.n % GS_HTTP_ACCEPTINGS];
    if (!value.bytes)
        return &any;
    bool is_known = accepting->size == value.n + 1 && !request->has_more_encodings &&
                    !memcmp(accepting->value, value.bytes, value.n);
    return is_known ? accepting : parse(service, request);
}

struct gs_http_page *gs_http_choose(struct gs_http_service *service,
                                    const struct gs_http_request *request,
                                    struct gs_http_page *page, uint64_t now_ns)
{
    const struct gs_http_accepting *accepting = find_accepting(service, request);
    return page->choice_id == accepting->id ? page->choice
                                            : choose(service, accepting, page, now_ns);
}

/* ---- Siblings ---- */

/* Returns whether it is the file that was loaded before, so that its page need not be replaced. */
static bool is_same(const struct gs_http_page *old, const struct gs_http_page *sibling)
{
    return old && old->is_sibling && (old->fd >= 0 || old->is_settled) &&
           gs_http_page_is_same_file(&old->stat, &sibling->stat);
}

void gs_http_set_siblings(struct gs_http_cache *cache, struct gs_http_page *page,
                          struct gs_http_page *const siblings[GS_HTTP_CODINGS])
{
    bool have_been = false, are = false;
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++) {
        have_been |= page->variants[coding] && page->variants[coding]->is_sibling;
        are |= siblings[coding] != NULL;
    }
    if (!are && !have_been)
        return;
    page->pending = are ? 0 : page->compressible;
    page->fresh_ns = page->is_settled ? GS_HTTP_FRESH_NS : page->fresh_ns;
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++)
        if (siblings[coding] && siblings[coding]->fresh_ns < page->fresh_ns)
            page->fresh_ns = siblings[coding]->fresh_ns;
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++) {
        if (siblings[coding] && is_same(page->variants[coding], siblings[coding]))
            continue;
        if (gs_http_cache_set_variant(cache, page, coding, siblings[coding]))
            continue;
        gs_http_cache_remove(cache, page);
        (void)gs_http_cache_set_variant(cache, page, coding, siblings[coding]);
    }
}
