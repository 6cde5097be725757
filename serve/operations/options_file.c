#include "serve/operations/options_file.h"

#include <stdlib.h>

/* What the command line gives takes the place of what the file gives, lists as a whole. */
int serve_options_parse_over(int argc, char **argv, int *ret_first)
{
    struct cli_list lists[CLI_OPTIONS_MAX] = {0};
    for (size_t i = 0; i < serve_command.count; i++)
        if (serve_command.options[i].kind == CLI_LIST) {
            lists[i] = *(struct cli_list *)serve_command.options[i].target;
            *(struct cli_list *)serve_command.options[i].target = (struct cli_list){0};
        }
    int err = cli_parse(&serve_command, argc, argv, ret_first);
    for (size_t i = 0; i < serve_command.count; i++) {
        struct cli_list *list =
            serve_command.options[i].kind == CLI_LIST ? serve_command.options[i].target : NULL;
        if (list && !list->count)
            *list = lists[i];
        else
            cli_list_done(&lists[i]);
    }
    return err;
}

int serve_options_add(struct cli_list *list, const char *text)
{
    const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return serve_options_refuse("out of memory");
    items[list->count++] = text;
    list->items = items;
    return 0;
}

/* Each certificate has a key, or none has; that of others is in the certificate's file. */
int serve_options_take_certificates(struct serve_options *options)
{
    const struct serve_config_host *hosts = options->config.hosts.items;
    bool has_keys = false, has_ocsp = false;
    int err = 0;
    if (options->certificates.count)
        return 0;
    for (size_t i = 0; i < options->config.hosts.count; i++) {
        has_keys |= hosts[i].certificate && hosts[i].key;
        has_ocsp |= hosts[i].certificate && hosts[i].ocsp;
    }
    for (size_t i = 0; i < options->config.hosts.count && !err; i++) {
        const struct serve_config_host *host = &hosts[i];
        if (!host->certificate)
            continue;
        err = serve_options_add(&options->certificates, host->certificate);
        if (!err && has_keys)
            err = serve_options_add(&options->keys, host->key ? host->key : host->certificate);
        if (!err && has_ocsp)
            err = serve_options_add(&options->ocsp, host->ocsp);
    }
    return err;
}

/* Options without a file, as the file of one host. */
int serve_options_make_host(struct serve_options *options)
{
    struct serve_config_items *hosts = &options->config.hosts;
    if (hosts->count)
        return 0;
    if (options->certificates.count > 1)
        return serve_options_refuse("--print-config: give each --certificate a host in a file");
    struct serve_config_host *host = serve_arena_take(&options->config.arena, sizeof *host);
    if (!host)
        return serve_options_refuse("out of memory");
    host->root = options->root;
    host->certificate = options->certificates.count ? options->certificates.items[0] : NULL;
    host->key = options->keys.count ? options->keys.items[0] : NULL;
    host->ocsp = options->ocsp.count ? options->ocsp.items[0] : NULL;
    *hosts = (struct serve_config_items){host, 1};
    return 0;
}
