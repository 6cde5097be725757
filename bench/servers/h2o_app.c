/* A handler of libh2o, with one thread, for bench/web.py.
 *
 *     h2o_app SIZE     responds to each request with SIZE bytes */
#define H2O_USE_LIBUV 0
#include <arpa/inet.h>
#include <h2o.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { ACCEPTS_MAX = 16 }; /* per event, of what h2o's own server does */

static h2o_iovec_t page;
static h2o_accept_ctx_t acceptor;

static int handle(h2o_handler_t *handler, h2o_req_t *request)
{
    static h2o_generator_t generator;
    (void)handler;
    request->res.status = 200;
    request->res.reason = "OK";
    request->res.content_length = page.len;
    h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
                   H2O_STRLIT("text/html"));
    h2o_start_response(request, &generator);
    h2o_send(request, &page, 1, H2O_SEND_STATE_FINAL);
    return 0;
}

static void on_accept(h2o_socket_t *listener, const char *err)
{
    h2o_socket_t *client = NULL;
    for (int i = 0; !err && i < ACCEPTS_MAX && (client = h2o_evloop_socket_accept(listener)); i++)
        h2o_accept(&acceptor, client);
}

static void run(int fd)
{
    static h2o_globalconf_t config;
    static h2o_context_t context;
    h2o_config_init(&config);
    config.server_name = h2o_iovec_init(NULL, 0); /* no field "Server", as of `app` */
    h2o_hostconf_t *host =
        h2o_config_register_host(&config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_pathconf_t *path = h2o_config_register_path(host, "/", 0);
    h2o_create_handler(path, sizeof(h2o_handler_t))->on_req = handle;
    h2o_context_init(&context, h2o_evloop_create(), &config);
    acceptor = (h2o_accept_ctx_t){.ctx = &context, .hosts = config.hosts};
    h2o_socket_t *listener = h2o_evloop_socket_create(context.loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    h2o_socket_read_start(listener, on_accept);
    while (!h2o_evloop_run(context.loop, INT32_MAX))
        ;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    page.len = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    page.base = calloc(1, page.len + 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!page.base || fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 4096) ||
        getsockname(fd, (struct sockaddr *)&address, &length))
        return 1;
    printf("listening on http://127.0.0.1:%u (h2o)\n", ntohs(address.sin_port));
    if (!fflush(stdout))
        run(fd);
    return 1;
}
