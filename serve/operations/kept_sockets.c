#include "serve/operations/kept_sockets.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>

int serve_kept_sockets_add(struct serve_kept_sockets *sockets, int fd, const char *name)
{
    struct serve_kept_socket *items = realloc(sockets->items, (sockets->count + 1) * sizeof *items);
    char *copy = name ? strdup(name) : NULL;
    if (items)
        sockets->items = items;
    if (!items || (name && !copy)) {
        free(copy);
        gs_sys_close(fd);
        return -ENOMEM;
    }
    items[sockets->count++] = (struct serve_kept_socket){.fd = fd, .name = copy};
    return 0;
}

void serve_kept_sockets_close(struct serve_kept_sockets *sockets)
{
    for (unsigned i = 0; i < sockets->count; i++) {
        gs_sys_close(sockets->items[i].fd);
        free(sockets->items[i].name);
    }
    free(sockets->items);
    *sockets = (struct serve_kept_sockets){0};
}
