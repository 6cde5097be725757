#include "serve/loops.h"

#include "serve/server.h"

#include <stdio.h>
#include <string.h>

int serve_loop_new(const struct serve_server *server, bool is_first, struct gs_loop **ret_loop)
{
    const char *asked = server->options->poller;
    int err = gs_loop_new_on(asked, ret_loop);
    if (err || !asked || !is_first)
        return err;
    const char *poller = gs_loop_poller(*ret_loop);
    if (strcmp(asked, poller) != 0)
        fprintf(stderr, "gossamer serve: the kernel has no %s for us: --poller %s\n", asked,
                poller);
    return 0;
}

bool serve_loop_is_by_level(const struct gs_loop *loop)
{
    const char *poller = gs_loop_poller(loop);
    return !strcmp(poller, "poll") || !strcmp(poller, "select");
}
