#include "serve/operations/options_tls.h"

#include <stdlib.h>
#include <string.h>

/* Of what each certificate has, or none. */
static int check_counts(const struct serve_options *options)
{
    const struct cli_list *lists[] = {&options->keys, &options->ocsp};
    for (int i = 0; i < 2; i++)
        if (lists[i]->count && lists[i]->count != options->certificates.count)
            return serve_options_refuse("--%s: there are %zu for %zu certificates",
                                        i ? "ocsp" : "key", lists[i]->count,
                                        options->certificates.count);
    return 0;
}

int serve_options_choose_tls(const struct serve_options *options, bool logs_tls)
{
    size_t https = 0;
    if (!options->listen.count && getenv("LISTEN_FDS"))
        return check_counts(
            options); /* the names of inherited sockets say which have TLS (listening.c) */
    for (size_t i = 0; i < options->listen.count; i++)
        https += !strncmp(options->listen.items[i], "https:", strlen("https:"));
    if (https && !options->certificates.count)
        return serve_options_refuse("--listen https://... needs --certificate and --key");
    if (!https && options->certificates.count)
        return serve_options_refuse("--certificate: no --listen begins with https://");
    if ((options->redirects || options->hsts_ns) && !https)
        return serve_options_refuse("--%s: no --listen begins with https://",
                                    options->redirects ? "redirect-https" : "hsts");
    if (logs_tls && (!https || !options->access_log))
        return serve_options_refuse("--log-tls needs --access-log, and --listen https://...");
    if (options->hsts_ns && !options->redirects && https < options->listen.count)
        return serve_options_refuse("--hsts needs --redirect-https, or https:// everywhere");
    if (options->users && !https && !options->users_without_tls)
        return serve_options_refuse("--users needs --listen https://..., or "
                                    "--users-without-tls, for instance behind a proxy");
    if (options->is_modern && !https)
        return serve_options_refuse("--tls-modern: no --listen begins with https://");
    return check_counts(options);
}
