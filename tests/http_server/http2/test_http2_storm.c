/* HTTP/2 with clients and handlers that do as they please: they reset, abort, leave bodies unread,
 * and vanish, on several workers, and while the server ends. What was not disturbed is right. */
#include "tests/http_server/http2/peer.h"

#define CLIENTS 8
#define CONNECTIONS 3 /* of each client, one after the other */
#define REQUESTS 20   /* on each connection */
#define PAGE 100000

/* ---- Handlers ---- */

static char page[PAGE];

static void write_page(struct gs_http_exchange *exchange)
{
    int err = gs_http_start(exchange, 200, NULL, PAGE);
    for (size_t at = 0; !err && at < PAGE; at += PAGE / 4)
        err = gs_http_write(exchange, page + at, PAGE / 4);
}

static void respond_with_length(struct gs_http_exchange *exchange)
{
    char bytes[3000], text[20];
    size_t total = 0;
    ssize_t n;
    while ((n = gs_http_read(exchange, bytes, sizeof bytes)) > 0)
        total += (size_t)n;
    if (n)
        return;
    int length = snprintf(text, sizeof text, "%zu", total);
    (void)!gs_http_respond(exchange, 200, NULL, text, (size_t)length);
}

/* What it does is the first letter of the path. */
static void obey(struct gs_http_exchange *exchange, void *unused)
{
    char byte;
    ssize_t n = 0;
    (void)unused;
    switch (exchange->path[1]) {
    case 'l':
        respond_with_length(exchange);
        break;
    case 'p':
        write_page(exchange);
        break;
    case 's':
        (void)!gs_thread_sleep(after(GS_MILLISECOND));
        (void)!gs_http_respond(exchange, 200, NULL, "hello", 5);
        break;
    case 'a':
        n = gs_http_read(exchange, &byte, 1);
        gs_http_abort(exchange);
        break;
    case 'x':
        (void)!gs_http_start(exchange, 200, NULL, GS_HTTP_UNKNOWN);
        (void)!gs_http_write(exchange, "x", 1);
        gs_thread_exit(NULL);
    case 'r':
        if (!gs_http_respond(exchange, 200, NULL, "hello", 5))
            n = gs_http_read(exchange, &byte, 1);
        break;
    default: /* no response */
        break;
    }
    (void)n;
}

/* ---- Clients ---- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

struct request {
    int32_t id;
    char kind;
    size_t body_n;
    bool is_disturbed; /* it is reset, */
    bool is_reset;     /* and was */
};

static struct request ask_something(struct peer *peer, uint32_t *state)
{
    static const char kinds[] = "lpsaxrn";
    struct request request = {.kind = kinds[next_random(state) % 7],
                              .body_n = (size_t)(next_random(state) % 5) * 10000,
                              .is_disturbed = next_random(state) % 3 == 0};
    char path[] = {'/', request.kind, '\0'};
    bool has_body = request.kind == 'l' || next_random(state) % 2;
    request.id = has_body ? peer_post(peer, path, request.body_n, request.is_disturbed)
                          : peer_get(peer, path);
    return request;
}

static void check_answer(const struct peer_stream *stream, const struct request *request)
{
    char kind = request->kind, length[20];
    snprintf(length, sizeof length, "%zu", request->body_n);
    MUST_EQ(stream->error, kind == 'a' || kind == 'x' ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_NO_ERROR);
    if (kind == 'n')
        MUST_EQ(stream->status, 500);
    if (kind == 'l')
        MUST_EQ(strcmp(stream->body, length), 0);
    if (kind == 'p')
        MUST_EQ(stream->body_n, PAGE);
    if (kind == 's' || kind == 'r')
        MUST_EQ(stream->body_n, 5);
}

/* Receive something, if the server has to say something more. */
static void exchange_some(struct peer *peer, const struct request *requests, unsigned count)
{
    bool is_complete = true;
    for (unsigned i = 0; i < count; i++)
        is_complete &= requests[i].is_disturbed || peer_stream(peer, requests[i].id)->is_closed;
    peer_send(peer);
    if (!is_complete && !peer->is_over)
        peer_receive(peer);
}

static bool must_end; /* the server ends meanwhile: what it answers is not looked at */

static void finish(struct peer *peer, const struct request *requests)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct peer_stream *stream = peer_stream(peer, requests[i].id);
        if (requests[i].is_disturbed)
            continue;
        if (!must_end) {
            PEER_UNTIL(peer, stream->is_closed);
            check_answer(stream, &requests[i]);
        }
        while (!stream->is_closed && !peer->is_over)
            exchange_some(peer, requests, REQUESTS);
    }
}

static void disturb(struct peer *peer, struct request *request)
{
    if (!request->is_disturbed || request->is_reset)
        return;
    peer_send(peer); /* a reset precedes no request */
    peer_reset(peer, request->id);
    request->is_reset = true;
}

/* Some connections end while requests are in progress. */
static void be_connected(struct peer *peer, int fd, uint32_t *state)
{
    const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                           next_random(state) % 2 ? 65535 : 1000};
    struct request requests[REQUESTS];
    bool vanishes = next_random(state) % 4 == 0;
    peer_open_with(peer, fd, &window, 1, false);
    for (unsigned i = 0; i < REQUESTS; i++) {
        requests[i] = ask_something(peer, state);
        if (next_random(state) % 2)
            exchange_some(peer, requests, i + 1);
        disturb(peer, &requests[next_random(state) % (i + 1)]);
    }
    for (unsigned i = 0; i < REQUESTS; i++)
        disturb(peer, &requests[i]);
    peer_send(peer);
    if (!vanishes)
        finish(peer, requests);
    peer_close(peer);
}

static struct client {
    uint32_t seed;
    int fd; /* of its only connection; -1: it connects by itself */
    struct gs_thread *thread;
} clients[CLIENTS];

static void *be_client(void *argument)
{
    struct client *client = argument;
    uint32_t state = client->seed;
    struct peer *peer = malloc(sizeof *peer);
    MUST(peer);
    if (client->fd >= 0)
        be_connected(peer, client->fd, &state);
    for (int i = 0; client->fd < 0 && i < CONNECTIONS; i++)
        be_connected(peer, connect_client(), &state);
    free(peer);
    return NULL;
}

static void start_clients(uint32_t seed)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.seed = seed + i, .fd = must_end ? connect_client() : -1};
        clients[i].thread = spawn(be_client, &clients[i]);
    }
}

static void join_clients(void)
{
    for (int i = 0; i < CLIENTS; i++)
        join(clients[i].thread);
}

static void *be_clients(void *unused)
{
    start_server();
    start_clients(1);
    join_clients();
    stop_server();
    return unused;
}

TEST(what_was_not_disturbed_is_answered)
{
    must_end = false;
    serve_with(&(struct gs_http_server){.handler = obey}, be_clients);
    serve_with(&(struct gs_http_server){.handler = obey, .migrates = true}, be_clients);
}

/* The server ends while they have asked for something. */
static void *be_clients_of_a_server_that_ends(void *unused)
{
    for (uint32_t i = 0; i < 6; i++) {
        start_server();
        start_clients(100 + i * CLIENTS);
        (void)!gs_thread_sleep(after(i * GS_MILLISECOND));
        stop_server(); /* which closes what was not accepted */
        join_clients();
    }
    return unused;
}

TEST(server_ends_whatever_is_in_progress)
{
    must_end = true;
    serve_with(&(struct gs_http_server){.handler = obey, .drain_timeout_ns = 5 * GS_MILLISECOND},
               be_clients_of_a_server_that_ends);
    serve_with(&(struct gs_http_server){.handler = obey,
                                        .drain_timeout_ns = 5 * GS_MILLISECOND,
                                        .migrates = true},
               be_clients_of_a_server_that_ends);
}
