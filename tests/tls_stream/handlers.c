/* A server of the library for clients of others: handlers [CERTIFICATE KEY], two files in PEM, for
 * TLS with HTTP/2 by ALPN. Prints its port, and drains at SIGTERM. /echo returns the body as it
 * arrives, /slow waits before it answers. */
#include <gossamer/http_server.h>
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <gossamer/thread.h>
#include <gossamer/tls.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
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

static void *serve(void *listener)
{
    const struct gs_http_server server = {
        .handler = answer, .tls = context, .max_body = 1 << 30, .migrates = true};
    return (void *)(intptr_t)gs_http_serve(*(int *)listener, &server);
}

static void *run(void *unused)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    struct gs_thread *thread;
    void *result = NULL;
    int listener = gs_listen("127.0.0.1:0", NULL); /* a free port */
    (void)unused;
    if (listener < 0 || gs_sys_getsockname(listener, (struct sockaddr *)&address, &length) ||
        gs_thread_spawn(NULL, serve, &listener, &thread))
        return "no listener or thread";
    printf("listening on port %d\n", ntohs(address.sin_port));
    if (fflush(stdout) || gs_wait_signal(SIGTERM, GS_NEVER))
        return "no output or signal";
    gs_thread_cancel(thread);
    return gs_thread_join(thread, GS_NEVER, &result) || result ? "the server failed" : NULL;
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
