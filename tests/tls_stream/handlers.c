/* A server of the library for clients of others: handlers [CERTIFICATE KEY], two files in PEM, for
 * TLS with HTTP/2 by ALPN. Prints its port, and drains at SIGTERM. /echo returns the body as it
 * arrives, /slow waits before it answers. */
#include "tests/http_server/program.h"

#include <gossamer/tls.h>
#include <string.h>

static struct gs_tls_context *context;

static void echo(struct gs_http_exchange *exchange)
{
    char bytes[4096];
    ssize_t n;
    int err = gs_http_start(exchange, 200, "application/octet-stream", GS_HTTP_UNKNOWN);
    while (!err && (n = gs_http_read(exchange, bytes, sizeof bytes)))
        err = n < 0 ? (int)n : gs_http_write(exchange, bytes, (size_t)n);
    if (err)
        gs_http_abort(exchange);
}

static void answer(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    if (!strcmp(exchange->path, "/echo")) {
        echo(exchange);
        return;
    }
    if (!strcmp(exchange->path, "/slow"))
        (void)!gs_thread_sleep(gs_clock_now() + 300 * GS_MILLISECOND);
    if (gs_http_respond(exchange, 200, "text/plain", "hello\n", 6))
        gs_http_abort(exchange);
}

static void *run(void *unused)
{
    const struct gs_http_server server = {
        .handler = answer, .tls = context, .max_body = 1 << 30, .migrates = true};
    (void)unused;
    return serve_until_told(&server);
}

int main(int argc, char **argv)
{
    char text[GS_TLS_TEXT] = "usage: handlers [CERTIFICATE KEY]";
    const struct gs_tls_certificate certificate = {.chain = argv[1], .key = argv[argc - 1]};
    const char *const protocols[] = {"h2", "http/1.1"};
    const struct gs_tls_options options = {.certificates = &certificate,
                                           .certificate_count = 1,
                                           .protocols = protocols,
                                           .protocol_count = 2};
    void *problem = text;
    if (argc == 1 || (argc == 3 && !gs_tls_context_new(&options, &context, text))) {
        snprintf(text, sizeof text, "the threads failed");
        if (!gs_threads_run(NULL, run, NULL, &problem) && !problem)
            return 0;
    }
    fprintf(stderr, "%s\n", problem ? (const char *)problem : text);
    return 1;
}
