#include "serve/operations/sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void describe(const struct serve_config_host *host, struct gs_http_site *ret_site)
{
    *ret_site = (struct gs_http_site){
        .hosts = host->names.items,
        .host_count = (unsigned)host->names.count,
        .is_default = !host->names.count,
        .root_fd = -1,
    };
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
        serve_options_refuse("out of memory");
        return -ENOMEM;
    }
    for (unsigned i = 0; i < sites->root_count; i++)
        sites->roots[i] =
            (struct serve_root){.path = sites->count ? hosts[i].root : options->root, .fd = -1};
    for (unsigned i = 0; i < sites->count; i++)
        describe(&hosts[i], &sites->items[i]);
    return 0;
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

void serve_sites_done(struct serve_sites *sites)
{
    for (unsigned i = 0; i < sites->root_count; i++)
        serve_root_close(&sites->roots[i]);
    free(sites->roots);
    free(sites->items);
    serve_arena_free(&sites->arena);
    *sites = (struct serve_sites){0};
}
