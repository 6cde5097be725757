#include "http/sibling.h"

#include "http/media_type.h"

#include <stdlib.h>

struct gs_http_text gs_http_load_media_type(const struct gs_http_load *load)
{
    const char *type = gs_http_media_type((struct gs_http_text){load->file, load->file_n});
    return (struct gs_http_text){type, strlen(type)};
}

void gs_http_load_expect_siblings(struct gs_http_load *load)
{
    const struct gs_http_page *cached = load->cached;
    struct gs_http_text type = gs_http_load_media_type(load);
    load->has_siblings = gs_http_media_type_is_compressible(type) ||
                         gs_http_text_is(type, "application/octet-stream");
    for (unsigned coding = 1; cached && coding < GS_HTTP_CODINGS; coding++)
        if (cached->variants[coding] && cached->variants[coding]->is_sibling)
            load->cached_siblings[coding] = gs_http_page_ref(cached->variants[coding]);
}

struct gs_http_page *gs_http_load_cached(const struct gs_http_load *load)
{
    return load->coding ? load->cached_siblings[load->coding] : load->cached;
}

bool gs_http_load_find_open(struct gs_http_load *load)
{
    for (unsigned coding = load->coding; coding < GS_HTTP_CODINGS; coding++) {
        load->coding = (uint8_t)coding;
        const struct gs_http_page *cached = gs_http_load_cached(load);
        if (cached && cached->fd >= 0)
            return true;
    }
    load->coding = GS_HTTP_IN_IDENTITY;
    return false;
}

void gs_http_load_check_only(struct gs_http_load *load)
{
    load->is_fresh = true;
    if (gs_http_load_find_open(load))
        load->step = GS_HTTP_LOAD_CHECK;
}

void gs_http_load_open_directory(struct gs_http_load *load)
{
    free(load->target);
    load->target = NULL;
    load->file[load->path.n] = '\0';
    load->step = GS_HTTP_LOAD_OPEN_DIRECTORY;
}

/* There are only siblings. */
static void create_absent_page(struct gs_http_load *load)
{
    static const struct stat none;
    load->status = 200;
    if (load->cached && load->cached->is_absent) {
        load->page = gs_http_page_ref(load->cached);
        return;
    }
    load->page = gs_http_page_new(load->path, &none, NULL, GS_HTTP_PAGE_NEGOTIATED);
    if (!load->page) {
        load->status = 503;
        return;
    }
    load->page->site = load->site;
    load->page->is_absent = load->page->is_settled = true;
    load->page->fresh_ns = GS_HTTP_FRESH_NS;
}

static void end_siblings(struct gs_http_load *load)
{
    bool has_any = false;
    for (unsigned coding = 1; coding < GS_HTTP_CODINGS; coding++)
        has_any |= load->siblings[coding] != NULL;
    load->page = load->siblings[GS_HTTP_IN_IDENTITY];
    load->siblings[GS_HTTP_IN_IDENTITY] = NULL;
    load->coding = GS_HTTP_IN_IDENTITY;
    load->file[load->file_n] = '\0';
    load->has_siblings = false;
    load->knows_siblings = true;
    if (load->page)
        return;
    if (has_any)
        create_absent_page(load);
    else if (load->lacks_siblings)
        load->status = 503;
    else if (load->is_directory)
        gs_http_load_open_directory(load);
}

void gs_http_load_complete(struct gs_http_load *load)
{
    load->step = GS_HTTP_LOAD_COMPLETE;
    if (!load->has_siblings || (load->status != 200 && load->status != 404))
        return;
    load->siblings[load->coding] = load->page;
    load->page = NULL;
    if (++load->coding == GS_HTTP_CODINGS) {
        end_siblings(load);
        return;
    }
    const char *suffix = gs_http_coding_suffix((enum gs_http_coding)load->coding);
    memcpy(load->file + load->file_n, suffix, strlen(suffix) + 1);
    free(load->target);
    load->target = NULL;
    load->attempts = 0;
    load->step = GS_HTTP_LOAD_OPEN;
}

bool gs_http_load_is_outdated(const struct gs_http_load *load)
{
    const struct gs_http_page *page = load->siblings[GS_HTTP_IN_IDENTITY];
    return load->coding &&
           (!load->stat.st_size || (page && load->stat.st_mtim.tv_sec < page->stat.st_mtim.tv_sec));
}
