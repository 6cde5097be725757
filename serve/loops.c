#include "serve/loops.h"

#include "serve/server.h"

#include <stdio.h>
#include <string.h>

void serve_say_poller(const struct serve_server *server, const char *poller)
{
    const char *asked = server->options->poller;
    if (asked && strcmp(asked, poller) != 0)
        fprintf(stderr, "gossamer serve: the kernel has no %s for us: --poller %s\n", asked,
                poller);
}

int serve_loop_new(const struct serve_server *server, bool is_first, struct gs_loop **ret_loop)
{
    int err = gs_loop_new_on(server->options->poller, ret_loop);
    if (!err && is_first)
        serve_say_poller(server, gs_loop_poller(*ret_loop));
    return err;
}

bool serve_loop_is_by_level(const struct gs_loop *loop)
{
    const char *poller = gs_loop_poller(loop);
    return !strcmp(poller, "poll") || !strcmp(poller, "select");
}
