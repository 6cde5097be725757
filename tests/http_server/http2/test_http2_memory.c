/* HTTP/2 by a server to which memory is refused. Each allocation of the library is made to fail,
 * for every number of it; each stream and each handler must end, and the next client be served. The
 * clients' libnghttp2 allocates by itself. */
#include "tests/http_server/http2/peer.h"
#include "tests/http_server/survive.h"

/* Of a new queue of streams with data: if that can't be allocated, libnghttp2 frees what was to be
 * queued twice (docs/design/http2.md). */
#define QUEUE_N 32

#define BODY ((size_t)40000)

static struct peer peer;

/* The body, and behind it as much again; to HEAD only a head. */
static void answer(struct gs_http_exchange *exchange, void *unused)
{
    static char bytes[BODY];
    (void)unused;
    ssize_t n = gs_http_read_all(exchange, bytes, sizeof bytes);
    if (n < 0 || gs_http_set_field(exchange, "X", "y") ||
        gs_http_start(exchange, 200, "text/plain", GS_HTTP_UNKNOWN))
        return;
    if (!gs_http_write(exchange, bytes, (size_t)n))
        (void)!gs_http_write(exchange, bytes, sizeof bytes);
}

static int32_t post(void)
{
    static const char *const fields[] = {
        ":method",    "POST", ":scheme", "http",         ":path", "/",
        ":authority", "h",    "expect",  "100-continue", NULL};
    int32_t id = peer_send_head(&peer, fields, true);
    peer_stream(&peer, id)->upload_n = BODY;
    peer_stream(&peer, id)->is_held = false;
    return id;
}

static bool is_complete(int32_t id, size_t n)
{
    const struct peer_stream *stream = peer_stream(&peer, id);
    return stream->is_closed && !stream->error && stream->status == 200 && stream->body_n == n;
}

/* Returns whether all was answered. The connection, or a stream, may end at any time. */
static bool ask_in_need(void)
{
    peer_open(&peer, connect_client());
    int32_t first = post(), second = peer_get(&peer, "/");
    int32_t third = peer_ask(&peer, "HEAD", "/", NULL, NULL);
    peer_send(&peer);
    while (!peer.is_over &&
           !(peer_stream(&peer, first)->is_closed && peer_stream(&peer, second)->is_closed &&
             peer_stream(&peer, third)->is_closed)) {
        peer_receive(&peer);
        peer_send(&peer);
    }
    bool is_whole =
        is_complete(first, 2 * BODY) && is_complete(second, BODY) && is_complete(third, 0);
    peer_close(&peer);
    return is_whole;
}

static int attempt(void)
{
    return !ask_in_need();
}

THREAD(be_in_need)
{
    start_server();
    exempt_n = QUEUE_N;
    (void)must_survive(attempt, 20); /* session, streams, head, body, output, fields, ... */
    stop_server();
}

TEST(server_survives_each_allocation_that_fails)
{
    server = (struct gs_http_server){.handler = answer};
    run_with(1, be_in_need);
    server.migrates = true;
    run_with(3, be_in_need);
}
