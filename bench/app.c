/* An application on gs_http_serve, with one worker, for bench/web.py.
 *
 *     app SIZE     responds to each request with SIZE bytes */
#include <arpa/inet.h>
#include <gossamer/http_server.h>
#include <gossamer/sys.h>
#include <gossamer/thread.h>
#include <stdio.h>
#include <stdlib.h>

static char *page;
static size_t size;

static void handle(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    (void)!gs_http_respond(exchange, 200, "text/html", page, size);
}

static void *serve(void *listener)
{
    const struct gs_http_server server = {.handler = handle, .max_connections = 20000};
    return (void *)(intptr_t)gs_http_serve(*(int *)listener, &server);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    size = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    page = calloc(1, size + 1);
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!page || gs_sys_bind(fd, (struct sockaddr *)&address, length) || gs_sys_listen(fd, 4096) ||
        gs_sys_getsockname(fd, (struct sockaddr *)&address, &length))
        return 1;
    printf("listening on http://127.0.0.1:%u (app)\n", ntohs(address.sin_port));
    return fflush(stdout) || gs_threads_run(NULL, serve, &fd, NULL);
}
