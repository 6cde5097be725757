/* A push server: all who are subscribed, at ws://.../push, get the body of POST /publish. */
#include <arpa/inet.h>
#include <gossamer/http_server.h>
#include <gossamer/io.h>
#include <gossamer/list.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <gossamer/websocket.h>
#include <stdio.h>
#include <string.h>

struct subscriber {
    struct gs_list link;
    struct gs_websocket *socket;
};
static struct gs_mutex mutex; /* of the list */
static struct gs_list subscribers = {&subscribers, &subscribers};

static void subscribe(struct gs_http_exchange *exchange)
{
    const struct gs_websocket_options options = {.keepalive_ns = 60 * GS_SECOND};
    struct gs_websocket_message message;
    struct subscriber self;
    if (gs_websocket_accept(exchange, &options, &self.socket))
        return;
    gs_mutex_lock(&mutex, GS_NEVER);
    gs_list_append(&subscribers, &self.link);
    gs_mutex_unlock(&mutex);
    while (!gs_websocket_receive(self.socket, &message, GS_NEVER))
        ; /* what a subscriber says is ignored */
    gs_mutex_lock(&mutex, GS_NEVER);
    gs_list_remove(&self.link);
    gs_mutex_unlock(&mutex);
    gs_websocket_close(self.socket, GS_WEBSOCKET_GOING_AWAY, NULL, gs_clock_now() + GS_SECOND);
}

/* One that does not take the message in time is disconnected: its thread's receive returns. */
static void publish(struct gs_http_exchange *exchange)
{
    char text[1000];
    ssize_t n = gs_http_read_all(exchange, text, sizeof text);
    uint64_t deadline_ns = gs_clock_now() + GS_SECOND / 10;
    if (n < 0)
        return;
    gs_mutex_lock(&mutex, GS_NEVER);
    GS_LIST_FOREACH (link, &subscribers) {
        struct gs_websocket *socket = gs_container_of(link, struct subscriber, link)->socket;
        if (gs_websocket_send(socket, GS_WEBSOCKET_TEXT, text, (size_t)n, deadline_ns))
            gs_sys_shutdown(gs_websocket_fd(socket), SHUT_RDWR);
    }
    gs_mutex_unlock(&mutex);
    (void)!gs_http_respond(exchange, 204, NULL, NULL, 0);
}

static void handle(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    if (!strcmp(exchange->path, "/push"))
        subscribe(exchange);
    if (!strcmp(exchange->path, "/publish") && !strcmp(exchange->method, "POST"))
        publish(exchange);
}

static void *serve(void *listener)
{
    const struct gs_http_server server = {.handler = handle, .max_connections = 1000000};
    return (void *)(intptr_t)gs_http_serve(*(int *)listener, &server);
}

int main(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fd = gs_listen("127.0.0.1:0", NULL); /* a free port */
    if (fd < 0 || gs_sys_getsockname(fd, (struct sockaddr *)&address, &length))
        return 1;
    printf("serving http://127.0.0.1:%d/publish\n", ntohs(address.sin_port));
    return fflush(stdout) || gs_threads_run(NULL, serve, &fd, NULL);
}
