/* HTTP/2: requests and responses, which a handler cannot tell from those of HTTP/1. */
#include "tests/http_server/http2/peer.h"

/* ---- Requests ---- */

static void describe(struct gs_http_exchange *exchange, void *unused)
{
    char text[500];
    (void)unused;
    const char *field = gs_http_field(exchange, "X-Field");
    int n = snprintf(text, sizeof text, "%s %s %s %s %s %u %u", exchange->method, exchange->path,
                     exchange->query ? exchange->query : "-", exchange->host, field ? field : "-",
                     exchange->minor_version, (unsigned)exchange->content_length);
    MUST_EQ(gs_http_set_field(exchange, "X-Answer", "yes"), 0);
    MUST_EQ(gs_http_respond(exchange, 200, "text/plain", text, (size_t)n), 0);
}

static void *ask_for_descriptions(void *unused)
{
    static struct peer peer;
    start_server();
    peer_open(&peer, connect_client());
    struct peer_stream *stream = peer_fetch(&peer, "/a/b?c=d");
    MUST_EQ(stream->status, 200);
    MUST_EQ(stream->error, NGHTTP2_NO_ERROR);
    MUST_EQ(strcmp(stream->body, "GET /a/b c=d host.test - 1 0"), 0);
    MUST_CONTAIN(stream->fields, "x-answer: yes\n");
    MUST_CONTAIN(stream->fields, "content-type: text/plain\n");
    MUST_CONTAIN(stream->fields, "content-length: 28\n");
    MUST_CONTAIN(stream->fields, "date: ");
    MUST(!strstr(stream->fields, "connection"));
    int32_t id = peer_ask(&peer, "GET", "/", "x-field", "value");
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    MUST_EQ(strcmp(peer_stream(&peer, id)->body, "GET / - host.test value 1 0"), 0);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(request_of_http2_looks_like_one_of_http1)
{
    serve_with(&(struct gs_http_server){.handler = describe}, ask_for_descriptions);
    serve_with(&(struct gs_http_server){.handler = describe, .migrates = true},
               ask_for_descriptions);
}

#define STREAMS 50

static void *ask_at_once(void *unused)
{
    struct peer *peer = malloc(sizeof *peer);
    int32_t ids[STREAMS];
    MUST(peer);
    peer_open(peer, connect_client());
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < STREAMS; i++)
            ids[i] = peer_get(peer, "/");
        for (int i = 0; i < STREAMS; i++) {
            PEER_UNTIL(peer, peer_stream(peer, ids[i])->is_closed);
            MUST_EQ(peer_stream(peer, ids[i])->status, 200);
        }
    }
    peer_close(peer);
    free(peer);
    return unused;
}

static void *be_clients(void *unused)
{
    struct gs_thread *clients[8];
    start_server();
    for (int i = 0; i < 8; i++)
        clients[i] = spawn(ask_at_once, NULL);
    for (int i = 0; i < 8; i++)
        join(clients[i]);
    stop_server();
    return unused;
}

TEST(many_clients_with_many_streams_are_served)
{
    serve_with(&(struct gs_http_server){.handler = describe}, be_clients);
    serve_with(&(struct gs_http_server){.handler = describe, .migrates = true}, be_clients);
}
