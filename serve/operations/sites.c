#include "serve/operations/sites.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(void)
{
    serve_options_refuse("out of memory");
    return -ENOMEM;
}

/* Returns the lines of the fields, or NULL. */
static const char *write_fields(struct serve_arena *arena, const struct serve_config_items *set)
{
    const struct serve_config_entry *entries = set->items;
    size_t size = 1;
    for (size_t i = 0; i < set->count; i++)
        size += strlen(entries[i].name) + strlen(entries[i].value) + strlen(": \r\n");
    char *fields = serve_arena_take(arena, size), *at = fields;
    for (size_t i = 0; fields && i < set->count; i++)
        at += sprintf(at, "%s: %s\r\n", entries[i].name, entries[i].value);
    return fields;
}

static int describe_headers(struct serve_arena *arena, const struct serve_config_items *headers,
                            struct gs_http_site *site)
{
    const struct serve_config_headers *items = headers->items;
    struct gs_http_rule *rules = serve_arena_take(arena, headers->count * sizeof *rules);
    for (size_t i = 0; rules && i < headers->count; i++) {
        const char *fields = write_fields(arena, &items[i].set);
        if (!fields)
            return no_memory();
        rules[i] = (struct gs_http_rule){.pattern = items[i].path, .fields = fields};
    }
    site->rules = rules;
    site->rule_count = (unsigned)headers->count;
    return rules ? 0 : no_memory();
}

static int describe_pages(struct serve_arena *arena, const struct serve_config_host *host,
                          struct gs_http_site *site)
{
    const struct serve_config_entry *entries = host->error_pages.items;
    struct gs_http_error_page *pages =
        serve_arena_take(arena, host->error_pages.count * sizeof *pages);
    for (size_t i = 0; pages && i < host->error_pages.count; i++)
        pages[i] = (struct gs_http_error_page){.status = (unsigned)atoi(entries[i].name),
                                               .path = entries[i].value + 1};
    site->fallback = host->fallback ? host->fallback + 1 : NULL;
    site->error_pages = pages;
    site->error_page_count = (unsigned)host->error_pages.count;
    return pages ? 0 : no_memory();
}

static int describe_redirects(struct serve_arena *arena, const struct serve_config_host *host,
                              struct gs_http_site *site)
{
    const struct serve_config_redirect *items = host->redirects.items;
    struct gs_http_redirect *redirects =
        serve_arena_take(arena, host->redirects.count * sizeof *redirects);
    for (size_t i = 0; redirects && i < host->redirects.count; i++)
        redirects[i] = (struct gs_http_redirect){
            .pattern = items[i].from, .target = items[i].to, .status = (unsigned)items[i].status};
    site->redirects = redirects;
    site->redirect_count = (unsigned)host->redirects.count;
    return redirects ? 0 : no_memory();
}

/* What the parser of the file has not found: limits of all rules together. */
static int check(const struct serve_options *options, const struct serve_config_host *host,
                 const struct gs_http_site *site)
{
    const char *hsts = "Strict-Transport-Security: max-age=18446744073\r\n"; /* the longest */
    const char *problem = gs_http_site_problem(site, options->hsts_ns ? hsts : NULL);
    if (!problem)
        return 0;
    fprintf(stderr, "%s:%u: a host %s\n", options->config.file, host->line, problem);
    return -EINVAL;
}

static int describe(const struct serve_options *options, const struct serve_config_host *host,
                    struct serve_arena *arena, struct gs_http_site *ret_site)
{
    *ret_site = (struct gs_http_site){
        .hosts = host->names.items,
        .host_count = (unsigned)host->names.count,
        .is_default = !host->names.count,
        .root_fd = -1,
        .clean_urls = host->clean_urls,
    };
    int err = describe_headers(arena, &host->headers, ret_site);
    if (!err)
        err = describe_redirects(arena, host, ret_site);
    if (!err)
        err = describe_pages(arena, host, ret_site);
    return err ? err : check(options, host, ret_site);
}

int serve_sites_init(struct serve_sites *sites, const struct serve_options *options)
{
    const struct serve_config_host *hosts = options->config.hosts.items;
    *sites = (struct serve_sites){.count = (unsigned)options->config.hosts.count};
    sites->root_count = sites->count ? sites->count : 1;
    sites->roots = calloc(sites->root_count, sizeof *sites->roots);
    sites->items = sites->count ? calloc(sites->count, sizeof *sites->items) : NULL;
    if (!sites->roots || (sites->count && !sites->items)) {
        sites->root_count = 0;
        return no_memory();
    }
    for (unsigned i = 0; i < sites->root_count; i++)
        sites->roots[i] =
            (struct serve_root){.path = sites->count ? hosts[i].root : options->root, .fd = -1};
    int err = 0;
    for (unsigned i = 0; i < sites->count && !err; i++)
        err = describe(options, &hosts[i], &sites->arena, &sites->items[i]);
    return err;
}

static int fail(const struct serve_root *root, int err)
{
    serve_options_refuse("can't serve %s: %s", root->path, strerror(-err));
    return err;
}

int serve_sites_open(struct serve_sites *sites)
{
    for (unsigned i = 0; i < sites->root_count; i++) {
        int err = serve_root_open(&sites->roots[i], sites->roots[i].path);
        if (err)
            return fail(&sites->roots[i], err);
        if (sites->items)
            sites->items[i].root_fd = sites->roots[i].fd;
    }
    return 0;
}

int serve_sites_check_access(const struct serve_sites *sites)
{
    for (unsigned i = 0; i < sites->root_count; i++) {
        int err = serve_root_check_access(&sites->roots[i]);
        if (err)
            return fail(&sites->roots[i], err);
    }
    return 0;
}

void serve_sites_redirect(struct serve_sites *sites, uint16_t https_port)
{
    for (unsigned i = 0; i < sites->count; i++)
        sites->items[i].https_port = https_port;
}

void serve_sites_done(struct serve_sites *sites)
{
    for (unsigned i = 0; i < sites->root_count; i++)
        serve_root_close(&sites->roots[i]);
    free(sites->roots);
    free(sites->items);
    serve_arena_free(&sites->arena);
    *sites = (struct serve_sites){0};
}
