/* The echo server of echo.c with TLS: tls_loop ADDRESS CERTIFICATE KEY. While output of the engine
 * is left, nothing is received from the client. */
#include <errno.h>
#include <gossamer/list.h>
#include <gossamer/loop.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <gossamer/tls_engine.h>

#include <stdlib.h>

static struct gs_tls_context *context;

struct client {
    struct gs_io io;
    struct gs_tls_engine *engine;
};

/* Returns false if the client has gone. */
static bool send_output(struct client *client)
{
    size_t left;
    const char *output = gs_tls_engine_output(client->engine, &left);
    ssize_t n = left ? gs_sys_send(client->io.fd, output, left, MSG_NOSIGNAL) : 0;
    gs_tls_engine_sent(client->engine, n > 0 ? (size_t)n : 0);
    gs_io_set_events(&client->io, n < (ssize_t)left ? GS_WRITE : GS_READ);
    return n >= 0 || n == -EAGAIN;
}

/* Returns -EAGAIN if the client may send more. The handshake makes output, but no plaintext. */
static ssize_t receive(struct client *client)
{
    char bytes[4096], plain[4096];
    ssize_t n = gs_sys_recv(client->io.fd, bytes, sizeof bytes, 0);
    struct gs_tls_input input = {bytes, n > 0 ? (size_t)n : 0};
    while (n > 0 && (n = gs_tls_engine_read(client->engine, &input, plain, sizeof plain)) > 0)
        n = gs_tls_engine_write(client->engine, plain, (size_t)n);
    return n;
}

static void on_client(struct gs_io *io, unsigned events)
{
    struct client *client = gs_container_of(io, struct client, io);
    ssize_t received = events & GS_WRITE ? -EAGAIN : receive(client);
    if (received != -EAGAIN)
        gs_tls_engine_close(client->engine);
    if (send_output(client) && received == -EAGAIN)
        return;
    gs_io_stop(io);
    gs_sys_close(io->fd);
    gs_tls_engine_free(client->engine);
    free(client);
}

static void on_listener(struct gs_io *listener, unsigned events)
{
    int fd = gs_sys_accept(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct client *client = calloc(1, sizeof *client);
    if (!events || fd < 0 || !client || gs_tls_engine_new(context, NULL, &client->engine))
        abort(); /* a server would try again later */
    gs_io_init(&client->io, listener->watcher.loop, on_client);
    gs_io_set(&client->io, fd, GS_READ);
    if (gs_io_start(&client->io))
        abort();
}

int main(int argc, char **argv)
{
    struct gs_tls_certificate certificate = {.chain = argv[argc / 2], .key = argv[argc - 1]};
    const struct gs_tls_options options = {.certificates = &certificate, .certificate_count = 1};
    struct gs_loop *loop;
    struct gs_io listener;
    int fd = argc == 4 ? gs_listen(argv[1], NULL) : -EINVAL;
    if (fd < 0 || gs_tls_context_new(&options, &context, NULL) || gs_loop_new(&loop))
        return 1;
    gs_io_init(&listener, loop, on_listener);
    gs_io_set(&listener, fd, GS_READ);
    return gs_io_start(&listener) || gs_loop_run(loop);
}
