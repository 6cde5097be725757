#include "serve/operations/check.h"

#include "serve/accept/address.h"
#include "serve/operations/certificates.h"
#include "serve/operations/sites.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

static int check_addresses(const struct serve_options *options)
{
    int err = 0;
    for (size_t i = 0; i < options->listen.count; i++) {
        struct serve_address address;
        const char *problem, *word = options->listen.items[i];
        if (serve_address_parse(word, &address, &problem))
            err = serve_options_refuse("--listen %s %s", word, problem);
    }
    return err;
}

static int check_sites(const struct serve_options *options)
{
    struct serve_sites sites;
    int err = serve_sites_init(&sites, options);
    if (!err)
        err = serve_sites_open(&sites);
    serve_sites_done(&sites);
    return err;
}

static int check_user(const struct serve_options *options)
{
    if (!options->user || getpwnam(options->user))
        return 0;
    return serve_options_refuse("--user %s: there is no such user", options->user);
}

static int check_certificates(const struct serve_options *options)
{
    struct serve_certificates certificates = {0};
    struct serve_tls_counts counts = {0};
    if (!options->certificates.count)
        return 0;
    int err = serve_certificates_open(&certificates, options, &counts);
    serve_certificates_close(&certificates);
    return err;
}

int serve_check(const struct serve_options *options)
{
    int (*const checks[])(const struct serve_options *) = {check_addresses, check_sites, check_user,
                                                           check_certificates};
    int err = 0;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        err |= checks[i](options);
    if (err)
        return 2;
    puts("OK");
    return 0;
}
