#include "serve/connection/loops.h"

#include "serve/operations/server.h"

#include <string.h>

void serve_report_poller(struct serve_server *server, const char *poller)
{
    const char *asked = server->options->poller;
    server->poller = poller;
    if (asked && strcmp(asked, poller) != 0)
        serve_warn("the kernel has no %s for us: --poller %s", asked, poller);
}

int serve_loop_new(struct serve_server *server, bool is_first, struct gs_loop **ret_loop)
{
    int err = gs_loop_new_with(server->options->poller, ret_loop);
    if (!err && is_first)
        serve_report_poller(server, gs_loop_poller(*ret_loop));
    return err;
}

bool serve_loop_is_level_triggered(const struct gs_loop *loop)
{
    const char *poller = gs_loop_poller(loop);
    return !strcmp(poller, "poll") || !strcmp(poller, "select");
}

bool serve_poller_has_completions(const char *poller)
{
    return !strcmp(poller, "io_uring");
}

bool serve_load_or_shut_down(struct gs_loop *loop, struct serve_connection *connection)
{
    unsigned wants = serve_connection_wants(connection);
    if (wants & GS_HTTP_LOAD) {
        struct gs_http_load *load = gs_http_conn_take_load(&connection->http);
        gs_http_load_run(load);
        gs_loop_update_now(loop);
        serve_connection_loaded(connection, load, gs_loop_now(loop));
    } else if (wants & GS_HTTP_SHUTDOWN) {
        serve_connection_shut_down(connection, gs_loop_now(loop));
    }
    return wants & (GS_HTTP_LOAD | GS_HTTP_SHUTDOWN);
}
