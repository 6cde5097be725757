/* Server-sent events: each client of /events gets the time once a second. In a page,
 * new EventSource("/events").onmessage = event => ... */
#include <arpa/inet.h>
#include <gossamer/http_server.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <gossamer/thread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* An event is one or more lines of data, and an empty line. A write fails when the client has
 * gone. */
static void handle(struct gs_http_exchange *exchange, void *unused)
{
    char event[64];
    (void)unused;
    if (strcmp(exchange->path, "/events") != 0) {
        (void)!gs_http_respond(exchange, 404, "text/plain", "no such page\n", 13);
        return;
    }
    int err = gs_http_set_field(exchange, "Cache-Control", "no-store");
    if (!err)
        err = gs_http_start(exchange, 200, "text/event-stream", GS_HTTP_UNKNOWN);
    for (unsigned id = 1; !err; id++) {
        int n = snprintf(event, sizeof event, "id: %u\ndata: %lld\n\n", id, (long long)time(NULL));
        err = gs_http_write(exchange, event, (size_t)n);
        if (!err)
            err = gs_thread_sleep(gs_clock_now() + GS_SECOND);
    }
}

static void *serve(void *listener)
{
    const struct gs_http_server server = {.handler = handle};
    return (void *)(intptr_t)gs_http_serve(*(int *)listener, &server);
}

int main(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fd = gs_listen("127.0.0.1:0", NULL); /* a free port */
    if (fd < 0 || gs_sys_getsockname(fd, (struct sockaddr *)&address, &length))
        return 1;
    printf("serving http://127.0.0.1:%d/events\n", ntohs(address.sin_port));
    return fflush(stdout) || gs_threads_run(NULL, serve, &fd, NULL);
}
