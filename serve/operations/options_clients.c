#include "serve/operations/options_clients.h"

#include <errno.h>
#include <string.h>

static int choose_log_format(struct serve_options *options, const struct serve_client_words *words)
{
    const char *problem, *format = words->log_format ? words->log_format : "combined";
    bool is_used = words->log_format || words->log_fields;
    if (is_used && !options->access_log)
        return serve_options_refuse("--%s needs --access-log",
                                    words->log_format ? "log-format" : "log-fields");
    if (serve_log_format_parse(format, NULL, words->logs_tls, &options->log_format, &problem))
        return serve_options_refuse("--log-format %s %s", format, problem);
    if (words->log_fields && serve_log_format_parse(format, words->log_fields, words->logs_tls,
                                                    &options->log_format, &problem))
        return serve_options_refuse("--log-fields %s %s", words->log_fields, problem);
    return 0;
}

static int add_networks(struct serve_networks *networks, const char *option,
                        const struct cli_list *words)
{
    for (size_t i = 0; i < words->count; i++) {
        int err = serve_networks_add(networks, words->items[i]);
        if (err)
            return serve_options_refuse("--%s %s: %s", option, words->items[i],
                                        err == -ENOMEM ? "no memory"
                                                       : "it is ADDRESS, ADDRESS/BITS or unix");
    }
    return 0;
}

static int choose_proxies(struct serve_options *options, const struct serve_client_words *words)
{
    const char *field = words->forwarded ? words->forwarded : "x-forwarded-for";
    options->forwarded.is_standard = !strcmp(field, "forwarded");
    if (!options->forwarded.is_standard && strcmp(field, "x-forwarded-for") != 0)
        return serve_options_refuse("--forwarded-field %s: it is x-forwarded-for or forwarded",
                                    field);
    if (words->forwarded && !words->trusted.count)
        return serve_options_refuse("--forwarded-field needs --trusted-proxy");
    int err = add_networks(&options->proxies, "proxy-protocol", &words->proxies);
    return err ? err : add_networks(&options->forwarded.trusted, "trusted-proxy", &words->trusted);
}

int serve_options_choose_clients(struct serve_options *options,
                                 const struct serve_client_words *words)
{
    int err = choose_log_format(options, words);
    return err ? err : choose_proxies(options, words);
}
