/* HTTP/2 in gs_http_serve over TLS. */
#define PEER_HAS_TLS
#include <gossamer/tls.h>

#include "tests/http_server/http2/peer.h"
#include "tests/tls_stream/contexts.h"

static struct peer peer;

static void open_over_tls(const nghttp2_settings_entry *settings, size_t count, bool reads_by_hand)
{
    struct gs_tls *tls = NULL;
    int fd = connect_client();
    MUST_EQ(gs_tls_connect(client_context, fd, "server.test", after(PATIENCE_NS), &tls, NULL), 0);
    peer_open_with(&peer, fd, settings, count, reads_by_hand);
    peer.tls = tls;
}

static void close_over_tls(void)
{
    peer_close(&peer);
    gs_tls_close(peer.tls, after(PATIENCE_NS));
}

static void serve_over_tls(struct gs_http_server options, gs_thread_fn *clients)
{
    make_contexts();
    options.tls = server_context;
    serve_with(&options, clients);
    release_contexts();
}

#define PAGE ((size_t)8 << 20)

/* The page, or the length of the body. */
static void answer(struct gs_http_exchange *exchange, void *unused)
{
    static char page[PAGE];
    char bytes[5000], text[20];
    size_t total = 0;
    ssize_t n;
    (void)unused;
    MUST(exchange->is_tls);
    while ((n = gs_http_read(exchange, bytes, sizeof bytes)) > 0)
        total += (size_t)n;
    MUST_EQ(n, 0);
    int length = snprintf(text, sizeof text, "%zu", total);
    bool is_large = !strcmp(exchange->path, "/large");
    MUST_EQ(gs_http_respond(exchange, 200, NULL, is_large ? page : text,
                            is_large ? PAGE : (size_t)length),
            0);
}

static void *exchange_bodies(void *unused)
{
    int32_t ids[20];
    start_server();
    open_over_tls(NULL, 0, false);
    int32_t large = peer_get(&peer, "/large");
    for (size_t i = 0; i < 20; i++)
        ids[i] = peer_post(&peer, "/", i * 10000, false);
    for (size_t i = 0; i < 20; i++) {
        char length[20];
        snprintf(length, sizeof length, "%zu", i * 10000);
        PEER_UNTIL(&peer, peer_stream(&peer, ids[i])->is_closed);
        MUST_EQ(strcmp(peer_stream(&peer, ids[i])->body, length), 0);
    }
    PEER_UNTIL(&peer, peer_stream(&peer, large)->is_closed);
    MUST_EQ(peer_stream(&peer, large)->body_n, PAGE);
    close_over_tls();
    stop_server();
    return unused;
}

TEST(bodies_are_exchanged_over_tls)
{
    serve_over_tls((struct gs_http_server){.handler = answer}, exchange_bodies);
    serve_over_tls((struct gs_http_server){.handler = answer, .migrates = true}, exchange_bodies);
}

/* All windows are open from the beginning: the client sends nothing while it receives. */
static void *receive_only(void *unused)
{
    static const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX};
    start_server();
    for (int i = 0; i < 3; i++) {
        open_over_tls(&window, 1, true);
        MUST_EQ(nghttp2_submit_window_update(peer.session, 0, 0, 1 << 30), 0);
        MUST_EQ(peer_fetch(&peer, "/large")->body_n, PAGE);
        close_over_tls();
    }
    stop_server();
    return unused;
}

TEST(download_goes_on_without_a_word_of_the_client)
{
    serve_over_tls((struct gs_http_server){.handler = answer}, receive_only);
}

static void *say_good_bye(void *unused)
{
    start_server();
    open_over_tls(NULL, 0, false);
    MUST_EQ(peer_fetch(&peer, "/")->status, 200);
    gs_thread_cancel(server_thread);
    while (!peer.is_over) {
        peer_receive(&peer);
        peer_send(&peer);
    }
    MUST_EQ(peer.error, 0); /* close_notify */
    MUST_EQ(peer.goaways, 1);
    close_over_tls();
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
    return unused;
}

TEST(drained_connection_ends_with_close_notify)
{
    serve_over_tls((struct gs_http_server){.handler = answer, .drain_timeout_ns = PATIENCE_NS},
                   say_good_bye);
}
