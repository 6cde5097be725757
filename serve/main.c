#include "serve/serve.h"

#include "serve/arch/arch.h"
#include "serve/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void say_counts(const struct serve_server *server)
{
    struct gs_http_counts sum = {0};
    for (unsigned i = 0; i < server->workers; i++) {
        const struct gs_http_counts *counts = &server->counts[i].http;
        sum.connections += counts->connections;
        sum.requests += counts->requests;
        sum.client_errors += counts->client_errors;
        sum.server_errors += counts->server_errors;
        sum.bytes += counts->bytes;
        sum.timeouts += counts->timeouts;
    }
    fprintf(stderr,
            "%s: ended; %llu requests (%llu refused, %llu failed) on %llu connections (%llu too "
            "slow), %llu bytes\n",
            serve_command.name, (unsigned long long)sum.requests,
            (unsigned long long)sum.client_errors, (unsigned long long)sum.server_errors,
            (unsigned long long)sum.connections, (unsigned long long)sum.timeouts,
            (unsigned long long)sum.bytes);
}

int gs_serve_main(int argc, char **argv)
{
    struct serve_options options;
    struct serve_server server;
    int err = serve_options_parse(argc, argv, &options);
    if (err)
        return err == CLI_DONE ? 0 : 2;
    err = serve_server_init(&server, &options);
    if (err) {
        serve_options_done(&options);
        return 2;
    }
    err = options.arch->run(&server);
    if (err)
        fprintf(stderr, "%s: %s failed: %s\n", serve_command.name, options.arch->name,
                strerror(-err));
    else
        say_counts(&server);
    serve_server_done(&server);
    serve_options_done(&options);
    return err ? 1 : 0;
}
