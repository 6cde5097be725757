#include "http/load.h"

#include "http/guard.h"
#include "http/sibling.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_FILE "index.html"

struct gs_http_load *gs_http_load_new(struct gs_http_text path, bool is_directory,
                                      const struct gs_http_site *site,
                                      const struct gs_http_options *options,
                                      struct gs_http_page *cached)
{
    bool is_open = cached && cached->fd >= 0;
    size_t file_n = path.n + (is_directory ? sizeof INDEX_FILE - 1 : 0);
    struct gs_http_load *load = malloc(sizeof *load + file_n + GS_HTTP_SUFFIX_MAX + 1);
    if (!load)
        return NULL;
    memcpy(load->file, path.bytes, path.n);
    memcpy(load->file + path.n, INDEX_FILE, file_n - path.n);
    load->file[file_n] = '\0';
    *load = (struct gs_http_load){
        .step = is_open ? GS_HTTP_LOAD_CHECK : GS_HTTP_LOAD_OPEN,
        .is_directory = is_directory,
        .follow_symlinks = options->follow_symlinks,
        .site = site,
        .root_fd = site->root_fd,
        .fd = -1,
        .portable_etags = options->portable_etags,
        .dotfiles = options->dotfiles,
        .fields = options->fields,
        .max_cached_file = options->max_cached_file,
        .cached = cached ? gs_http_page_ref(cached) : NULL,
        .path = {load->file, path.n},
        .file_n = file_n,
        .compressor_codings = options->compressor ? (uint8_t)options->compressor->codings : 0,
    };
    if (options->precompressed)
        gs_http_load_expect_siblings(load);
    return load;
}

struct gs_http_load *gs_http_load_new_generated(struct gs_http_text path,
                                                const struct gs_http_site *site,
                                                const struct gs_http_generator *generator)
{
    static const struct gs_http_options none;
    struct gs_http_load *load = gs_http_load_new(path, false, site, &none, NULL);
    if (!load)
        return NULL;
    load->stat.st_size = (off_t)generator->max_size;
    load->page = gs_http_page_new(path, &load->stat, NULL, GS_HTTP_PAGE_IN_MEMORY);
    if (!load->page) {
        gs_http_load_free(load);
        return NULL;
    }
    load->page->is_generated = true;
    load->page->is_quiet = generator->is_quiet;
    load->page->media_type =
        (struct gs_http_text){generator->media_type, strlen(generator->media_type)};
    load->generator = generator;
    load->step = GS_HTTP_LOAD_GENERATE;
    return load;
}

const struct gs_http_generator *gs_http_load_generator(const struct gs_http_load *load)
{
    return load->generator;
}

struct gs_http_load *gs_http_load_new_pass(const struct gs_http_site *site,
                                           const struct gs_http_pass *pass)
{
    static const struct gs_http_options none;
    struct gs_http_load *load = gs_http_load_new(GS_HTTP_TEXT(""), false, site, &none, NULL);
    struct gs_http_pass *copy = malloc(sizeof *copy);
    if (!load || !copy) {
        free(copy);
        gs_http_load_free(load);
        return NULL;
    }
    *copy = *pass;
    load->pass = copy;
    load->step = GS_HTTP_LOAD_AUTHENTICATE;
    return load;
}

void gs_http_load_free(struct gs_http_load *load)
{
    if (!load)
        return;
    if (load->pass)
        gs_http_credentials_wipe(&load->pass->credentials);
    free(load->pass);
    gs_http_page_unref(load->cached);
    gs_http_page_unref(load->page);
    for (unsigned coding = 0; coding < GS_HTTP_CODINGS; coding++) {
        gs_http_page_unref(load->siblings[coding]);
        gs_http_page_unref(load->cached_siblings[coding]);
    }
    free(load->target);
    free(load);
}
