/* A server of the library with TLS 1.3 only, for tools that judge it from outside:
 * tls_server CERTIFICATE KEY, two files in PEM. Prints its port. */
#include <gossamer/http_server.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <gossamer/thread.h>
#include <gossamer/tls.h>

#include <arpa/inet.h>
#include <stdio.h>

static struct gs_tls_context *context;

static void answer(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    if (gs_http_respond(exchange, 200, "text/plain", "hello\n", 6))
        gs_http_abort(exchange);
}

static void *serve(void *unused)
{
    const struct gs_http_server server = {.handler = answer, .tls = context};
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int listener = gs_listen("127.0.0.1:0", NULL); /* a free port */
    (void)unused;
    if (listener < 0 || gs_sys_getsockname(listener, (struct sockaddr *)&address, &length))
        return NULL;
    printf("listening on port %d\n", ntohs(address.sin_port));
    if (!fflush(stdout))
        (void)!gs_http_serve(listener, &server);
    return NULL;
}

int main(int argc, char **argv)
{
    char text[GS_TLS_TEXT] = "usage: tls_server CERTIFICATE KEY";
    const struct gs_tls_certificate certificate = {.chain = argv[1], .key = argv[argc - 1]};
    const struct gs_tls_options options = {
        .certificates = &certificate, .certificate_count = 1, .is_modern = true};
    if (argc != 3 || gs_tls_context_new(&options, &context, text)) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    return gs_threads_run(NULL, serve, NULL, NULL) != 0;
}
