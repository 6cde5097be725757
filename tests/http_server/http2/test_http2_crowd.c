/* HTTP/2: as many requests at once as a connection may have, each with a large cookie, all of which
 * have a handler at the same time. */
#include "tests/http_server/http2/peer.h"

#include <stdatomic.h>

#define COUNT 100
#define COOKIE_N 1500

static struct peer peer;
static atomic_uint entered;
static struct gs_semaphore all_entered;

static void answer(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    const char *cookie = gs_http_field(exchange, "cookie");
    MUST(cookie && strlen(cookie) == COOKIE_N);
    if (atomic_fetch_add(&entered, 1) + 1 == COUNT)
        for (unsigned i = 0; i < COUNT; i++)
            gs_semaphore_post(&all_entered);
    MUST_EQ(gs_semaphore_wait(&all_entered, after(PATIENCE_NS)), 0);
    (void)!gs_http_respond(exchange, 200, NULL, "hello", 5);
}

static void *ask_at_once(void *unused)
{
    static char cookie[COOKIE_N + 1];
    int32_t ids[COUNT];
    atomic_store(&entered, 0);
    start_server();
    peer_open(&peer, connect_client());
    for (unsigned i = 0; i < COUNT; i++) {
        int n = snprintf(cookie, sizeof cookie, "%u=", i);
        for (unsigned at = (unsigned)n; at < COOKIE_N; at++)
            cookie[at] = "{}|~^"[at * (i + 3) % 5];
        ids[i] = peer_ask(&peer, "GET", "/", "cookie", cookie);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        const struct peer_stream *stream = peer_stream(&peer, ids[i]);
        PEER_UNTIL(&peer, stream->is_closed);
        MUST_EQ(stream->error, 0);
        MUST_EQ(stream->status, 200);
    }
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(requests_with_large_cookies_are_all_answered)
{
    serve_with(&(struct gs_http_server){.handler = answer}, ask_at_once);
}
