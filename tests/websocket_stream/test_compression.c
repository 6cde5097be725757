/* Large messages that are compressed: they are coded in parts, between which other threads run. */
#include "tests/websocket_stream/sockets.h"
#include "websocket/deflate.h"

#define LARGE (8u << 20)
#define PARTS (LARGE / GS_WEBSOCKET_PART_MAX)

static const struct gs_websocket_options options = {.compression = 1, .max_message = LARGE};

static void run_alone(gs_thread_fn *first)
{
    if (!gs_websocket_has_deflate())
        SKIP("built without zlib");
    run_with(1, first);
}

#define ALONE_TEST(name_, handler_)                                                                \
    THREAD_FIXTURE_TEST(name_, run_alone, stop_server(),                                           \
                        server = (struct gs_http_server){.handler = handler_}, start_server())

/* ---- Turns of the worker ---- */

static bool is_done;
static unsigned turns;
static struct gs_semaphore has_sent;

static void *take_turns(void *unused)
{
    for (; !is_done; turns++)
        gs_thread_yield();
    return unused;
}

/* Of zeros, little arrives. */
static void send_large(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_websocket *socket;
    char *large = calloc(1, LARGE);
    (void)unused;
    MUST(large);
    MUST_EQ(gs_websocket_accept(exchange, &options, &socket), 0);
    unsigned before = turns;
    MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_BINARY, large, LARGE, patience()), 0);
    MUST(turns - before >= PARTS - 1);
    gs_semaphore_post(&has_sent);
    free(large);
    MUST_EQ(gs_websocket_close(socket, GS_WEBSOCKET_NORMAL, NULL, patience()), 0);
}

ALONE_TEST(other_threads_run_while_a_large_message_is_coded, send_large)
{
    struct gs_websocket_message message;
    is_done = false;
    struct gs_thread *other = spawn(take_turns, NULL);
    struct gs_websocket *socket = dial(&options, "/");
    MUST_EQ(gs_semaphore_wait(&has_sent, patience()), 0);
    unsigned before = turns;
    MUST_EQ(gs_websocket_receive(socket, &message, patience()), 0);
    MUST(turns - before >= PARTS - 1);
    MUST_EQ(message.n, LARGE);
    MUST(!message.bytes[0] && !memcmp(message.bytes, message.bytes + 1, LARGE - 1));
    is_done = true;
    join(other);
    must_close(socket);
}

/* ---- Text ---- */

static void echo(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_websocket *socket;
    (void)unused;
    MUST_EQ(gs_websocket_accept(exchange, &options, &socket), 0);
    int err = echo_all(socket);
    MUST(err == -ENODATA || err == -EPROTO);
    gs_websocket_abort(socket);
}

/* The last byte of the first part may be within a character. */
ALONE_TEST(characters_may_lie_in_two_parts, echo)
{
    size_t n = 3 * GS_WEBSOCKET_PART_MAX;
    char *text = malloc(n + 1);
    MUST(text);
    struct gs_websocket *socket = dial(&options, "/");
    for (size_t first = 0; first < 3; first++) {
        for (size_t i = 0; i < n; i++)
            text[i] = i < first ? 'a' : "\xe2\x82\xac"[(i - first) % 3];
        text[n - (n - first) % 3] = '\0'; /* behind the last whole character */
        send_text(socket, text);
        must_receive(socket, text);
    }
    must_close(socket);
    free(text);
}

ALONE_TEST(text_that_is_wrong_behind_the_first_part_is_refused, echo)
{
    size_t n = 3 * GS_WEBSOCKET_PART_MAX;
    char *text = malloc(n);
    MUST(text);
    memset(text, 'a', n);
    text[n - 2] = (char)0xc3;
    struct gs_websocket_message message;
    struct gs_websocket_end end;
    struct gs_websocket *socket = dial(&options, "/");
    MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_TEXT, text, n, patience()), 0);
    MUST_EQ(gs_websocket_receive(socket, &message, patience()), -ENODATA);
    gs_websocket_end(socket, &end);
    MUST_EQ(end.code, GS_WEBSOCKET_MALFORMED);
    gs_websocket_abort(socket);
    free(text);
}
