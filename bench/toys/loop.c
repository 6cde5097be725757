/* The Gossamer event loop, with a watcher per connection. */
#include "bench/toys/toy.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/loop.h>
#include <gossamer/sys.h>

/* In one turn, so that open connections get theirs. */
#define ACCEPTS_MAX 16

struct connection {
    struct gs_io io;
    struct toy toy;
};

static void end_connection(struct connection *connection)
{
    gs_io_stop(&connection->io);
    gs_loop_fd_closed(connection->io.watcher.loop, connection->io.fd);
    gs_sys_close(connection->io.fd);
    free(connection);
}

static void on_readable(struct gs_io *io, unsigned events)
{
    struct connection *connection = gs_container_of(io, struct connection, io);
    struct toy *toy = &connection->toy;
    size_t size;
    char *bytes = toy_buffer(toy, &size);
    ssize_t n = events & GS_FAILED ? -EIO : gs_sys_recv(io->fd, bytes, size, 0);
    if (n == -EAGAIN)
        return;
    enum toy_next next = toy_received(toy, n);
    if (next == TOY_SEND)
        next = toy_sent(toy, gs_sys_send(io->fd, toy_response, TOY_RESPONSE_SIZE, 0));
    if (next == TOY_END)
        end_connection(connection);
}

static void start_connection(struct gs_loop *loop, int fd)
{
    struct connection *connection = malloc(sizeof *connection);
    if (!connection) {
        gs_sys_close(fd);
        return;
    }
    connection->toy.n = 0;
    connection->toy.is_last = false;
    gs_io_init(&connection->io, loop, on_readable);
    gs_io_set(&connection->io, fd, GS_READ);
    if (gs_io_start(&connection->io))
        end_connection(connection);
    else
        gs_watcher_feed(&connection->io.watcher, GS_READ); /* the request is usually there */
}

static void on_connection(struct gs_io *listener, unsigned events)
{
    int fd = 0;
    unsigned known = 1; /* the event has announced one */
    (void)events;
    for (unsigned i = 0; fd >= 0 && i < ACCEPTS_MAX; i++) {
        if (!known)
            known = gs_sys_accept_queue(listener->fd);
        if (!known--)
            break;
        fd = gs_sys_accept(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            start_connection(listener->watcher.loop, fd);
    }
}

int main(int argc, char **argv)
{
    struct gs_loop *loop;
    struct gs_io listener;
    int fd = toy_listen(argc > 1 ? argv[1] : "127.0.0.1");
    toy_check(!gs_loop_new(&loop), "gs_loop_new");
    gs_sys_fcntl(fd, F_SETFL, O_NONBLOCK);
    gs_io_init(&listener, loop, on_connection);
    gs_io_set(&listener, fd, GS_READ);
    toy_check(!gs_io_start(&listener), "gs_io_start");
    return gs_loop_run(loop) ? 2 : 0;
}
