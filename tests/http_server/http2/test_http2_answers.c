/* HTTP/2: the responses of handlers, and those of the server itself, are those of HTTP/1. */
#include "tests/http_server/answers.h"
#include "tests/http_server/http2/peer.h"

#include <stdatomic.h>

static struct peer peer;

/* ---- In each way ---- */

#define ALL "0123456789abcdefghijklmnopqrstuvwxyz"
#define ERROR_500 "500 Internal Server Error\n"

static const struct {
    const char *method, *path;
    unsigned status; /* 0: none */
    const char *fields, *body;
    const char *absent; /* a field */
    uint32_t error;
} answers[] = {
    {"GET", "/fields", 299,
     "set-cookie: a=b; Path=/\nset-cookie: c=d\ncontent-type: text/plain\ncontent-length: 3\n",
     "abc", "stolen", 0},
    {"GET", "/stream", 200, "content-type: text/plain\n", ALL, "content-length", 0},
    {"GET", "/length", 200, "content-length: 36\n", ALL, "transfer", 0},
    {"GET", "/empty", 200, "date: ", "", "content-", 0},
    {"HEAD", "/stream", 200, "content-type: text/plain\n", "", "content-length", 0},
    {"HEAD", "/length", 200, "content-length: 36\n", "", "transfer", 0},
    {"HEAD", "/fields", 299, "content-length: 3\n", "", "transfer", 0},
    {"HEAD", "/", 500, "content-type: text/plain\n", "", "transfer", 0},
    {"GET", "/created", 204, "date: ", "", "content-length", 0},
    {"GET", "/modified", 304, "date: ", "", "content-length", 0},
    {"GET", "/", 500, "content-type: text/plain\n", ERROR_500, "connection", 0},
    {"GET", "/incomplete", 200, "content-length: 10\n", "123", "connection",
     NGHTTP2_INTERNAL_ERROR},
    {"GET", "/abort", 0, "", "", "date", NGHTTP2_INTERNAL_ERROR},
};

static void *get_answers(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        int32_t id = peer_ask(&peer, answers[i].method, answers[i].path, NULL, NULL);
        struct peer_stream *stream = peer_stream(&peer, id);
        PEER_UNTIL(&peer, stream->is_closed);
        MUST_EQ(stream->status, answers[i].status);
        MUST_EQ(stream->error, answers[i].error);
        MUST_CONTAIN(stream->fields, answers[i].fields);
        MUST_CONTAIN(stream->body, answers[i].body);
        MUST_EQ(stream->body_n, strlen(answers[i].body));
        MUST(!strstr(stream->fields, answers[i].absent));
    }
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(responses_are_those_of_http1)
{
    serve_with(&(struct gs_http_server){.handler = answer}, get_answers);
    serve_with(&(struct gs_http_server){.handler = answer, .migrates = true}, get_answers);
}

/* ---- Refusals ---- */

#define START ":method", "GET", ":scheme", "http", ":path", "/"
#define POST ":method", "POST", ":scheme", "http", ":path", "/", ":authority", "h"
#define LONG "01234567890123456789012345678901234567890123456789"

static const struct {
    const char *fields[20];
    unsigned status;
    bool has_body, is_head;
} refusals[] = {
    {{START, ":authority", "h", "x", "\x80 /"}, 200, false, false},
    {{":method", "CONNECT", ":authority", "h:1"}, 501, false, false},
    {{POST, "expect", "miracles"}, 417, true, false},
    {{POST, "content-length", "1001"}, 413, true, false},
    {{":method", "GET", ":scheme", "http", ":path", "/long/" LONG, ":authority", "h"},
     414,
     false,
     false},
    {{START, ":authority", "h", "a", "1", "b", "2", "c", "3", "d", "4"}, 431, false, false},
    {{START, ":authority", "h", "a", LONG LONG}, 431, false, false},
    {{":method", "HEAD", ":scheme", "http", ":path", "/", ":authority", "h", "a", LONG LONG},
     431,
     false,
     true},
    {{":method", "HEAD", ":scheme", "http", ":path", "/", ":authority", "h", "a", LONG, "b", LONG},
     431,
     false,
     true},
};

static void say_yes(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    MUST_EQ(gs_http_respond(exchange, 200, "text/plain", "yes", 3), 0);
}

static void *be_refused(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        int32_t id = peer_send_head(&peer, refusals[i].fields, refusals[i].has_body);
        struct peer_stream *stream = peer_stream(&peer, id);
        PEER_UNTIL(&peer, stream->is_closed);
        MUST_EQ(stream->status, refusals[i].status);
        MUST_EQ(stream->error, NGHTTP2_NO_ERROR);
        MUST_EQ(!stream->body_n, refusals[i].is_head);
    }
    MUST_EQ(peer_fetch(&peer, "/")->status, 200);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(requests_are_refused_as_in_http1_and_the_connection_goes_on)
{
    serve_with(&(struct gs_http_server){.handler = say_yes,
                                        .max_request_line = 64,
                                        .max_header = 100,
                                        .max_fields = 4,
                                        .max_body = 1000},
               be_refused);
}

/* ---- Heads of responses ---- */

static void pad_values(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    MUST_EQ(gs_http_set_field(exchange, "X-Padded", " \ta b\t "), 0);
    MUST_EQ(gs_http_set_field(exchange, "X-Blank", "  "), 0);
    MUST_EQ(gs_http_set_field(exchange, "X-Empty", ""), 0);
    MUST_EQ(gs_http_respond(exchange, 200, NULL, NULL, 0), 0);
}

static void *get_padded(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    MUST_CONTAIN(peer_fetch(&peer, "/")->fields, "x-padded: a b\nx-blank: \nx-empty: \n");
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(space_around_a_value_is_not_sent)
{
    serve_with(&(struct gs_http_server){.handler = pad_values}, get_padded);
}

#define FIELDS 9000
#define FIELD_N 60000

/* As many bytes of fields as a handler may have: in one, or in the shortest. */
static void add_fields(struct gs_http_exchange *exchange, void *value)
{
    if (exchange->path[1] == 'l') {
        MUST_EQ(gs_http_set_field(exchange, "x", value), 0);
    } else {
        for (int i = 0; i < FIELDS; i++)
            MUST_EQ(gs_http_set_field(exchange, "x", "yz"), 0);
    }
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "x", exchange->path[2] == 'b'), 0);
}

static void *get_fields(void *unused)
{
    static const char *const paths[] = {"/l", "/lb", "/s", "/sb"};
    start_server();
    for (size_t i = 0; i < 4; i++) {
        peer_open(&peer, connect_client());
        struct peer_stream *stream = peer_fetch(&peer, paths[i]);
        MUST_EQ(stream->error, NGHTTP2_NO_ERROR);
        MUST_EQ(stream->status, 200);
        MUST(stream->field_n > (i < 2 ? FIELD_N : 3 * FIELDS));
        MUST_EQ(stream->body_n, i % 2);
        peer_close(&peer);
    }
    stop_server();
    return unused;
}

TEST(response_may_have_all_fields_that_a_handler_may_set)
{
    static char value[FIELD_N + 1];
    memset(value, 'v', FIELD_N);
    serve_with(&(struct gs_http_server){.handler = add_fields, .data = value}, get_fields);
}

/* ---- Many at once ---- */

#define STREAMS 200

#define VALUE_N 4000u /* with a NUL */

static struct gs_semaphore entered, may_answer;

static void answer_at_length(struct gs_http_exchange *exchange, void *value)
{
    gs_semaphore_post(&entered);
    MUST_EQ(gs_semaphore_wait(&may_answer, GS_NEVER), 0);
    MUST_EQ(gs_http_set_field(exchange, "X-Long", value), 0);
    MUST_EQ(gs_http_respond(exchange, 200, NULL, value, VALUE_N), 0);
}

/* As many requests as the server allows; they are answered at the same time. */
static void ask_at_once(int32_t ids[STREAMS])
{
    PEER_UNTIL(&peer, peer.settings >= 2);
    for (unsigned i = 0; i < server.max_streams; i++)
        ids[i] = peer_get(&peer, "/");
    peer_send(&peer);
    for (unsigned i = 0; i < server.max_streams; i++)
        MUST_EQ(gs_semaphore_wait(&entered, after(PATIENCE_NS)), 0);
    for (unsigned i = 0; i < server.max_streams; i++)
        gs_semaphore_post(&may_answer);
}

static void *get_many(void *unused)
{
    int32_t ids[STREAMS] = {0};
    start_server();
    peer_open(&peer, connect_client());
    ask_at_once(ids);
    for (int i = 0; i < 20; i++) {
        MUST_EQ(nghttp2_submit_ping(peer.session, 0, NULL), 0);
        peer_send(&peer);
        gs_thread_yield();
    }
    for (unsigned i = 0; i < server.max_streams; i++) {
        PEER_UNTIL(&peer, peer_stream(&peer, ids[i])->is_closed);
        MUST_EQ(peer_stream(&peer, ids[i])->error, NGHTTP2_NO_ERROR);
        MUST_EQ(peer_stream(&peer, ids[i])->body_n, 4000);
    }
    MUST_EQ(peer.goaways, 0);
    peer_close(&peer);
    stop_server();
    return unused;
}

static void serve_at_length(unsigned max_streams, bool migrates, gs_thread_fn *clients)
{
    char value[VALUE_N];
    memset(value, 'v', sizeof value);
    value[VALUE_N - 1] = '\0';
    serve_with(&(struct gs_http_server){.handler = answer_at_length,
                                        .data = value,
                                        .max_streams = max_streams,
                                        .migrates = migrates},
               clients);
}

TEST(responses_that_are_ready_at_once_pass_no_limit)
{
    serve_at_length(100, false, get_many);
    serve_at_length(STREAMS, true, get_many);
}

/* The windows are shut until all responses have started. */
static void *get_many_late(void *unused)
{
    static const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    int32_t ids[STREAMS] = {0};
    start_server();
    peer_open_with(&peer, connect_client(), &window, 1, false);
    ask_at_once(ids);
    for (unsigned i = 0; i < server.max_streams; i++)
        PEER_UNTIL(&peer, peer_stream(&peer, ids[i])->status == 200);
    for (unsigned i = 0; i < server.max_streams; i++)
        MUST_EQ(nghttp2_submit_window_update(peer.session, 0, ids[i], VALUE_N), 0);
    for (unsigned i = 0; i < server.max_streams; i++)
        PEER_UNTIL(&peer, peer_stream(&peer, ids[i])->is_closed);
    for (unsigned i = 0; i < server.max_streams; i++)
        MUST_EQ(peer_stream(&peer, ids[i])->body_n, 4000);
    MUST_EQ(peer.goaways, 0);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(bodies_that_wait_for_windows_pass_no_limit)
{
    serve_at_length(STREAMS, false, get_many_late);
}
