/* A server with known delays, to check load generators: it responds to each request after 2 ms, and
 * to every twentieth request after 8 ms. A load generator should report a median slightly above
 * 2 ms, and a 99th percentile slightly above 8 ms.
 *
 *     delays                    prints its address, and serves until it is killed */
#include <arpa/inet.h>
#include <errno.h>
#include <gossamer/loop.h>
#include <gossamer/sys.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>

#define DELAY_NS (2 * GS_MILLISECOND)
#define LONG_DELAY_NS (8 * GS_MILLISECOND)
#define LONG_DELAY_INTERVAL 20

static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

struct connection {
    struct gs_io io;
    struct gs_timer timer;
};

static unsigned requests;

static void fail(const char *message)
{
    fprintf(stderr, "delays: %s\n", message);
    exit(2);
}

static void on_timer(struct gs_timer *timer)
{
    struct connection *connection = timer->watcher.data;
    gs_sys_send(connection->io.fd, response, sizeof response - 1, 0);
}

static void on_request(struct gs_io *io, unsigned events)
{
    char buffer[4096];
    struct connection *connection = io->watcher.data;
    (void)events;
    ssize_t n = gs_sys_recv(io->fd, buffer, sizeof buffer, 0);
    if (n == -EAGAIN)
        return;
    if (n > 0) {
        uint64_t delay_ns = ++requests % LONG_DELAY_INTERVAL ? DELAY_NS : LONG_DELAY_NS;
        gs_loop_update_now(io->watcher.loop);
        gs_timer_start(&connection->timer, gs_loop_now(io->watcher.loop) + delay_ns);
        return;
    }
    gs_io_stop(io);
    gs_timer_stop(&connection->timer);
    gs_loop_fd_closed(io->watcher.loop, io->fd);
    gs_sys_close(io->fd);
    free(connection);
}

static void on_connection(struct gs_io *listener, unsigned events)
{
    (void)events;
    int fd = gs_sys_accept(listener->fd, NULL, NULL, SOCK_NONBLOCK);
    struct connection *connection = fd < 0 ? NULL : calloc(1, sizeof *connection);
    if (!connection)
        return;
    gs_io_init(&connection->io, listener->watcher.loop, on_request);
    gs_timer_init(&connection->timer, listener->watcher.loop, on_timer);
    connection->io.watcher.data = connection->timer.watcher.data = connection;
    gs_io_set(&connection->io, fd, GS_READ);
    if (gs_io_start(&connection->io))
        fail("cannot watch a connection");
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    struct gs_loop *loop = NULL;
    struct gs_io listener;
    int on = 1;
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0 || gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) ||
        gs_sys_bind(fd, (struct sockaddr *)&address, length) || gs_sys_listen(fd, 4096) ||
        gs_sys_getsockname(fd, (struct sockaddr *)&address, &length) || gs_loop_new(&loop))
        fail("cannot listen");
    gs_io_init(&listener, loop, on_connection);
    gs_io_set(&listener, fd, GS_READ);
    if (gs_io_start(&listener))
        fail("cannot watch the listener");
    printf("listening on http://127.0.0.1:%u (delays)\n", ntohs(address.sin_port));
    fflush(stdout);
    return gs_loop_run(loop) ? 1 : 0;
}
