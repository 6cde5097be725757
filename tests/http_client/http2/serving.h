/* A server of gs_http_serve, and a client that speaks HTTP/2 with it, in one run. */
#ifndef GS_TESTS_HTTP_CLIENT_HTTP2_SERVING_H
#define GS_TESTS_HTTP_CLIENT_HTTP2_SERVING_H

#include "tests/http_client/scripted.h"

#include <gossamer/http_server.h>

#define PAGE ((size_t)1 << 20)

static struct gs_http_server server;
static char page[PAGE];
static _Atomic(unsigned) waiting;  /* handlers that wait for others, */
static _Atomic(unsigned) sleeping; /* and those that never respond */

/* Respond with the length of the request's body. */
static inline void count_body(struct gs_http_exchange *exchange)
{
    static const size_t size = 20000;
    char *bytes = malloc(size), text[20];
    size_t total = 0;
    ssize_t n;
    while ((n = gs_http_read(exchange, bytes, size)) > 0)
        total += (size_t)n;
    free(bytes);
    if (!n)
        (void)!gs_http_respond(exchange, 200, NULL, text,
                               (size_t)snprintf(text, sizeof text, "%zu", total));
}

/* Respond with the request's body, while that arrives. */
static inline void echo(struct gs_http_exchange *exchange)
{
    static const size_t size = 20000;
    char *bytes = malloc(size);
    ssize_t n;
    int err = gs_http_start(exchange, 200, NULL, GS_HTTP_UNKNOWN);
    while (!err && (n = gs_http_read(exchange, bytes, size)) > 0)
        err = gs_http_write(exchange, bytes, (size_t)n);
    free(bytes);
}

/* The server's descriptor of the connection tells which one it is. */
static inline void tell_connection(struct gs_http_exchange *exchange)
{
    char text[20];
    (void)!gs_http_respond(exchange, 200, NULL, text,
                           (size_t)snprintf(text, sizeof text, "%d", exchange->fd));
}

/* Respond as above when as many handlers wait as the path says. */
static inline void meet(struct gs_http_exchange *exchange)
{
    unsigned count = (unsigned)atoi(exchange->path + strlen("/meet/"));
    for (waiting++; waiting < count;)
        if (gs_thread_sleep(after(GS_MILLISECOND)))
            return;
    tell_connection(exchange);
}

static inline void obey(struct gs_http_exchange *exchange, void *unused)
{
    const char *path = exchange->path;
    (void)unused;
    if (!strcmp(path, "/hello")) {
        (void)!gs_http_set_field(exchange, "X-Field", "value");
        (void)!gs_http_respond(exchange, 200, "text/plain", "hello", 5);
    } else if (!strcmp(path, "/cookie")) {
        const char *cookie = gs_http_field(exchange, "cookie");
        (void)!gs_http_set_field(exchange, "Set-Cookie", "id=1; Path=/");
        (void)!gs_http_respond(exchange, 200, NULL, cookie, cookie ? strlen(cookie) : 0);
    } else if (!strcmp(path, "/empty")) {
        (void)!gs_http_respond(exchange, 204, NULL, NULL, 0);
    } else if (!strcmp(path, "/large")) {
        (void)!gs_http_respond(exchange, 200, NULL, page, PAGE);
    } else if (!strcmp(path, "/count")) {
        count_body(exchange);
    } else if (!strcmp(path, "/echo")) {
        echo(exchange);
    } else if (!strncmp(path, "/meet/", 6)) {
        meet(exchange);
    } else if (!strcmp(path, "/connection")) {
        tell_connection(exchange);
    } else if (!strcmp(path, "/never")) {
        sleeping++;
        (void)!gs_thread_sleep(GS_NEVER);
    } else if (!strcmp(path, "/soon") || !strcmp(path, "/late")) {
        (void)!gs_thread_sleep(after((path[1] == 's' ? 2 : 20) * GS_MILLISECOND));
        tell_connection(exchange);
    } else if (!strcmp(path, "/abort")) {
        gs_http_abort(exchange);
    } else if (!strcmp(path, "/half")) {
        (void)!gs_http_start(exchange, 200, NULL, 1000);
        (void)!gs_http_write(exchange, page, 500);
        gs_http_abort(exchange);
    } else {
        (void)!gs_http_respond(exchange, 404, NULL, NULL, 0);
    }
}

static inline void *serve(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)gs_http_serve(script_listener, &server);
}

static inline void start_server(void)
{
    const struct gs_http_client_options options = {.assumes_http2 = true};
    listen_for_script();
    waiting = sleeping = 0;
    server.handler = obey;
    if (!server.drain_timeout_ns) /* for handlers that never respond */
        server.drain_timeout_ns = 50 * GS_MILLISECOND;
    script_thread = spawn(serve, NULL);
    new_client(&options);
}

static inline void stop_server(void)
{
    gs_http_client_free(client);
    client = NULL;
    gs_thread_cancel(script_thread);
    MUST_EQ((intptr_t)join(script_thread), 0);
    gs_close(script_listener);
}

/* A test whose body is a thread beside a server with these options. */
#define SERVE_TEST(name_, ...)                                                                     \
    THREAD_FIXTURE_TEST(name_, run_both, stop_server(),                                            \
                        server = (struct gs_http_server)__VA_ARGS__, start_server())

/* ---- Threads that make requests ---- */

#define GETTERS_MAX 200u

struct getter {
    const char *path;
    uint64_t deadline_ns; /* 0: with patience */
    int err;
    size_t n;
    char body[20]; /* its beginning */
    struct gs_thread *thread;
};

static struct getter getters[GETTERS_MAX];

static inline void *run_getter(void *argument)
{
    struct getter *getter = argument;
    struct gs_http_response *response = NULL;
    char url[200], *text = NULL;
    uint64_t deadline_ns = getter->deadline_ns ? getter->deadline_ns : after(PATIENCE_NS);
    snprintf(url, sizeof url, "%s%s", script_url, getter->path);
    ssize_t n = gs_http_get(client, url, deadline_ns, &response);
    if (!n)
        n = gs_http_response_read_all(response, 2 * PAGE, deadline_ns, &text);
    getter->err = n < 0 ? (int)n : 0;
    getter->n = n < 0 ? 0 : (size_t)n;
    if (text)
        snprintf(getter->body, sizeof getter->body, "%s", text);
    free(text);
    gs_http_response_free(response);
    return NULL;
}

static inline struct getter *start_getter(unsigned at, const char *path, uint64_t deadline_ns)
{
    getters[at] = (struct getter){.path = path, .deadline_ns = deadline_ns};
    getters[at].thread = spawn(run_getter, &getters[at]);
    return &getters[at];
}

static inline void join_getters(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        join(getters[i].thread);
}

/* Returns how many connections serve this many threads at the same time. */
static inline unsigned count_connections(unsigned threads)
{
    char path[20];
    unsigned count = 0;
    waiting = 0;
    snprintf(path, sizeof path, "/meet/%u", threads);
    for (unsigned i = 0; i < threads; i++)
        start_getter(i, path, 0);
    join_getters(threads);
    for (unsigned i = 0; i < threads; i++) {
        bool is_new = true;
        MUST_EQ(getters[i].err, 0);
        for (unsigned j = 0; j < i; j++)
            is_new &= strcmp(getters[j].body, getters[i].body) != 0;
        count += is_new;
    }
    return count;
}

#endif
