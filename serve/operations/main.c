#include "serve/serve.h"

#include "serve/accept/addresses.h"
#include "serve/accept/unix_socket.h"
#include "serve/arch/arch.h"
#include "serve/operations/check.h"
#include "serve/operations/server.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void report_counts(const struct serve_server *server)
{
    struct gs_http_counts sum = {0};
    for (unsigned i = 0; i < server->workers; i++) {
        const struct gs_http_counts *counts = &server->counts[i].http;
        sum.connections += counts->connections;
        sum.requests += counts->requests;
        sum.client_errors += counts->client_errors;
        sum.server_errors += counts->server_errors + counts->broken_off;
        sum.bytes += counts->bytes;
        sum.timeouts += counts->timeouts;
    }
    serve_refusals_flush(&server->log_state->refusals);
    serve_log_report_losses(&server->log_state->losses);
    serve_warn("ended; %llu requests (%llu refused, %llu failed) on %llu connections (%llu too "
               "slow), %llu bytes",
               (unsigned long long)sum.requests, (unsigned long long)sum.client_errors,
               (unsigned long long)sum.server_errors, (unsigned long long)sum.connections,
               (unsigned long long)sum.timeouts, (unsigned long long)sum.bytes);
}

/* Returns how many connections were cut off. */
static uint64_t report_end(const struct serve_server *server)
{
    uint64_t cut_off = atomic_load(&server->drain->cut_off);
    if (cut_off)
        serve_error("the drain timeout has passed: %llu connections were cut off",
                    (unsigned long long)cut_off);
    report_counts(server);
    return cut_off;
}

/* The thread that writes the log waits for its disk, and uses the server when that answers. */
_Noreturn static void end_beside_log(struct serve_server *server, int status)
{
    for (unsigned i = 0; i < server->address_count; i++)
        serve_unix_socket_remove(&server->addresses[i]);
    _exit(status);
}

int gs_serve_main(int argc, char **argv)
{
    struct serve_options options;
    struct serve_server server;
    int err = serve_options_parse(argc, argv, &options);
    if (err)
        return err == CLI_DONE ? 0 : 2;
    if (options.is_check) {
        int status = serve_check(&options);
        serve_options_done(&options);
        return status;
    }
    serve_addresses_save();
    err = serve_server_init(&server, &options);
    if (err) {
        serve_options_done(&options);
        return 2;
    }
    err = options.arch->run(&server);
    if (err)
        serve_error("%s failed: %s", options.arch->name, strerror(-err));
    bool has_log_ended = serve_log_relay_stop(&server.log_relay);
    uint64_t cut_off = err ? 0 : report_end(&server);
    int status = err ? 1 : cut_off ? SERVE_EXIT_CUT_OFF : 0;
    serve_watchdog_stop(&server);
    if (!has_log_ended)
        end_beside_log(&server, status);
    serve_server_done(&server);
    serve_options_done(&options);
    return status;
}
