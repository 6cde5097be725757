/* An echo server on an event loop. While `pending` bytes are not sent, nothing is received from the
 * client: a client that does not read is not read from. */
#include <gossamer/list.h>
#include <gossamer/loop.h>
#include <gossamer/sys.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct client {
    struct gs_io io;
    size_t pending;
    char bytes[4096];
};

static void end_client(struct client *client)
{
    gs_io_stop(&client->io);
    gs_sys_close(client->io.fd);
    free(client);
}

/* Receive or send once; the loop calls again while the descriptor is ready. */
static void on_client(struct gs_io *io, unsigned events)
{
    struct client *client = gs_container_of(io, struct client, io);
    (void)events;
    ssize_t n = client->pending ? gs_sys_send(io->fd, client->bytes, client->pending, 0)
                                : gs_sys_recv(io->fd, client->bytes, sizeof client->bytes, 0);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n <= 0) {
        end_client(client);
    } else if (!client->pending) {
        client->pending = (size_t)n;
        gs_io_set_events(io, GS_WRITE);
    } else {
        client->pending -= (size_t)n;
        memmove(client->bytes, client->bytes + n, client->pending);
        gs_io_set_events(io, client->pending ? GS_WRITE : GS_READ);
    }
}

static void on_listener(struct gs_io *listener, unsigned events)
{
    (void)events;
    int fd = gs_sys_accept(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct client *client = fd < 0 ? NULL : calloc(1, sizeof *client);
    if (!client) {
        if (fd >= 0)
            gs_sys_close(fd);
        return;
    }
    gs_io_init(&client->io, listener->watcher.loop, on_client);
    gs_io_set(&client->io, fd, GS_READ);
    if (gs_io_start(&client->io))
        end_client(client);
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    struct gs_loop *loop;
    struct gs_io listener;
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || gs_sys_bind(fd, (struct sockaddr *)&address, length) || gs_sys_listen(fd, 128) ||
        gs_sys_getsockname(fd, (struct sockaddr *)&address, &length) || gs_loop_new(&loop))
        return 1;
    gs_io_init(&listener, loop, on_listener);
    gs_io_set(&listener, fd, GS_READ);
    printf("echoing on port %d\n", ntohs(address.sin_port));
    return fflush(stdout) || gs_io_start(&listener) || gs_loop_run(loop);
}
