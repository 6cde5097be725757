/* A reverse proxy: reverse_proxy LISTEN http://HOST:PORT... Requests go to the servers in turn; if
 * one fails, a request that can be repeated goes to the next. Bodies are passed on as they arrive.
 * Ctrl-C lets the requests in flight end. */
#include <gossamer/http_client.h>
#include <gossamer/http_server.h>
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <gossamer/thread.h>

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define FIELDS_MAX 100 /* of a request; more are refused by the server */
#define ANSWER_MAX (60 * GS_SECOND)
#define UPLOAD_MAX (600 * GS_SECOND)

static char **servers;
static unsigned server_count, turn;
static struct gs_http_client *client;

/* What is passed on of a request. */
struct passed {
    struct gs_http_exchange *exchange;
    struct gs_http_field fields[FIELDS_MAX + 2];
    unsigned field_count;
    char url[9000], client[1100];
    int body_err;
};

/* Returns whether the field is for the next hop only (RFC 9110, 7.6.1), or set by the library. */
static bool is_own(const char *name, const char *connection)
{
    static const char *const names[] = {"Connection",
                                        "Content-Length",
                                        "Date",
                                        "Expect",
                                        "Host",
                                        "Keep-Alive",
                                        "Proxy-Connection",
                                        "Proxy-Authorization",
                                        "TE",
                                        "Trailer",
                                        "Upgrade",
                                        "Transfer-Encoding",
                                        "X-Forwarded-For",
                                        "X-Forwarded-Proto"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(name, names[i]))
            return true;
    for (; connection; connection = strpbrk(connection, ", ")) {
        connection += strspn(connection, ", ");
        if (*connection && !strncasecmp(connection, name, n) && strcspn(connection, ", ") == n)
            return true;
    }
    return false;
}

static void add(struct passed *passed, const char *name, const char *value)
{
    passed->fields[passed->field_count++] = (struct gs_http_field){name, value};
}

static void collect(struct passed *passed)
{
    const struct gs_http_exchange *exchange = passed->exchange;
    const char *connection = gs_http_field(exchange, "Connection");
    const char *before = gs_http_field(exchange, "X-Forwarded-For");
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char name[64] = "unknown";
    for (unsigned i = 0; i < exchange->field_count && i < FIELDS_MAX; i++)
        if (!is_own(exchange->fields[i].name, connection))
            add(passed, exchange->fields[i].name, exchange->fields[i].value);
    if (!gs_sys_getpeername(exchange->fd, (struct sockaddr *)&address, &length))
        getnameinfo((struct sockaddr *)&address, length, name, sizeof name, NULL, 0,
                    NI_NUMERICHOST);
    snprintf(passed->client, sizeof passed->client, "%.1000s%s%s", before ? before : "",
             before ? ", " : "", name);
    add(passed, "X-Forwarded-For", passed->client);
    add(passed, "X-Forwarded-Proto", exchange->is_tls ? "https" : "http");
}

static void choose_server(struct passed *passed)
{
    const char *query = passed->exchange->query, *server = servers[turn++ % server_count];
    snprintf(passed->url, sizeof passed->url, "%s%s%s%s", server, passed->exchange->path,
             query ? "?" : "", query ? query : "");
}

/* ---- Requests and responses ---- */

static ssize_t read_body(void *data, void *bytes, size_t n, uint64_t deadline_ns)
{
    struct passed *passed = data;
    ssize_t count = gs_http_read(passed->exchange, bytes, n);
    (void)deadline_ns; /* the server's body_timeout_ns counts */
    passed->body_err = count < 0 ? (int)count : 0;
    return count;
}

static void respond(struct gs_http_exchange *exchange, struct gs_http_response *response)
{
    const char *connection = gs_http_response_field(response, "Connection");
    char bytes[16384];
    ssize_t n = 0;
    int err = 0;
    for (unsigned i = 0; i < response->field_count && !err; i++)
        if (!is_own(response->fields[i].name, connection) &&
            strcasecmp(response->fields[i].name, "Content-Type") != 0)
            err = gs_http_set_field(exchange, response->fields[i].name, response->fields[i].value);
    if (!err)
        err = gs_http_start(exchange, response->status,
                            gs_http_response_field(response, "Content-Type"),
                            response->content_length);
    if (err) {
        (void)!gs_http_clear_fields(exchange);
        (void)!gs_http_respond(exchange, 502, "text/plain", "bad response\n", 13);
        return;
    }
    while (!err && (n = gs_http_response_read(response, bytes, sizeof bytes,
                                              gs_clock_now() + ANSWER_MAX)) > 0)
        err = gs_http_write(exchange, bytes, (size_t)n);
    if (err || n < 0)
        gs_http_abort(exchange); /* so that the client does not take a part for the whole */
}

static void forward(struct gs_http_exchange *exchange, void *unused)
{
    struct passed passed = {.exchange = exchange};
    struct gs_http_response *response;
    (void)unused;
    collect(&passed);
    const struct gs_http_client_request request = {.method = exchange->method,
                                                   .url = passed.url,
                                                   .host = exchange->host,
                                                   .fields = passed.fields,
                                                   .field_count = passed.field_count,
                                                   .read_body =
                                                       exchange->content_length ? read_body : NULL,
                                                   .data = &passed,
                                                   .body_length = exchange->content_length};
    bool is_safe = !strcmp(exchange->method, "GET") || !strcmp(exchange->method, "HEAD");
    unsigned tries = is_safe && !request.read_body ? server_count : 1;
    uint64_t deadline_ns = gs_clock_now() + (request.read_body ? UPLOAD_MAX : ANSWER_MAX);
    int err = -EAGAIN;
    while (err && err != -ECANCELED && tries--) {
        choose_server(&passed);
        err = gs_http_fetch(client, &request, deadline_ns, &response);
    }
    if (!err) {
        respond(exchange, response);
        gs_http_response_free(response);
    } else if (!passed.body_err) { /* otherwise the server answers with 400, 408 or 413 */
        fprintf(stderr, "%s\n", gs_http_client_error());
        (void)!gs_http_respond(exchange, err == -ETIMEDOUT ? 504 : 502, "text/plain", "no server\n",
                               10);
    }
}

/* ---- The program ---- */

static void *serve(void *listener)
{
    const struct gs_http_server server = {.handler = forward, .max_body = UINT64_MAX};
    return (void *)(intptr_t)gs_http_serve(*(int *)listener, &server);
}

static void *run(void *listener)
{
    struct gs_thread *thread;
    if (gs_thread_spawn(NULL, serve, listener, &thread) || gs_wait_signal(SIGINT, GS_NEVER))
        return NULL;
    gs_thread_cancel(thread);
    return (void *)(intptr_t)gs_thread_join(thread, GS_NEVER, NULL);
}

int main(int argc, char **argv)
{
    const struct gs_http_client_options options = {.connect_timeout_ns = 5 * GS_SECOND,
                                                   .returns_redirects = true,
                                                   .leaves_encoded = true,
                                                   .ignores_proxies = true};
    int fd = argc > 2 ? gs_listen(argv[1], NULL) : -EINVAL;
    if (fd < 0 || gs_http_client_new(&options, &client))
        return 1;
    servers = argv + 2;
    server_count = (unsigned)argc - 2;
    int err = puts("proxying") < 0 || fflush(stdout) || gs_threads_run(NULL, run, &fd, NULL);
    gs_http_client_free(client);
    return err;
}
