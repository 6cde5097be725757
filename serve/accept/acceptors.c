#include "serve/accept/acceptors.h"

#include "serve/operations/server.h"

#include <errno.h>
#include <stdlib.h>

int serve_acceptors_init(struct serve_acceptors *acceptors, struct serve_server *server,
                         unsigned index, const struct serve_acceptors_options *options)
{
    acceptors->server = server;
    acceptors->index = index;
    acceptors->items = calloc(server->address_count, sizeof *acceptors->items);
    if (!acceptors->items)
        return -ENOMEM;
    for (unsigned i = 0; i < server->address_count; i++) {
        serve_acceptor_init(&acceptors->items[i], options->loop, options->slots, options->accepted,
                            options->data);
        acceptors->items[i].by_completions = options->by_completions;
        acceptors->items[i].is_tls = server->addresses[i].is_tls;
        if (server->options->evicts)
            acceptors->items[i].make_room = options->make_room;
    }
    return 0;
}

int serve_acceptors_start(struct serve_acceptors *acceptors)
{
    const struct serve_server *server = acceptors->server;
    const int *listeners = server->listeners + (size_t)acceptors->index * server->address_count;
    int err = 0;
    for (unsigned i = 0; !err && i < server->address_count; i++)
        err = serve_acceptor_start(&acceptors->items[i], listeners[i], server->log_fd >= 0);
    return err;
}

void serve_acceptors_cancel(struct serve_acceptors *acceptors)
{
    for (unsigned i = 0; i < acceptors->server->address_count; i++)
        serve_acceptor_cancel(&acceptors->items[i]);
}

bool serve_acceptors_are_idle(const struct serve_acceptors *acceptors)
{
    for (unsigned i = 0; i < acceptors->server->address_count; i++)
        if (!serve_acceptor_is_idle(&acceptors->items[i]))
            return false;
    return true;
}

void serve_acceptors_stop(struct serve_acceptors *acceptors)
{
    for (unsigned i = 0; acceptors->items && i < acceptors->server->address_count; i++)
        serve_acceptor_stop(&acceptors->items[i]);
}

void serve_acceptors_finish(struct serve_acceptors *acceptors)
{
    struct serve_server *server = acceptors->server;
    for (unsigned i = 0; i < server->address_count; i++) {
        struct serve_acceptor *acceptor = &acceptors->items[i];
        uint64_t max = serve_accept_queue_length(acceptor->io.fd, server->options->backlog);
        serve_acceptor_take_all(acceptor, (unsigned)max);
    }
    serve_acceptors_stop(acceptors);
    for (unsigned i = 0; i < server->address_count; i++) {
        const struct gs_io *io = &acceptors->items[i].io;
        gs_loop_fd_closed(io->watcher.loop, io->fd);
    }
    serve_stop_listening(server, acceptors->index);
}

void serve_acceptors_done(struct serve_acceptors *acceptors)
{
    free(acceptors->items);
    acceptors->items = NULL;
}
