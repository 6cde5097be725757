/* Clients of HTTP/2, against a server that is made of frames, and can misbehave in each. */
#include "load/report.h"
#include "tests/load/http2/frame_server.h"
#include "tests/load/run.h"

/* ---- Ways to answer ---- */

static void reset(struct http2 *http2, uint32_t id, uint32_t code)
{
    frames_send_number(http2, NGHTTP2_RST_STREAM, id, code);
}

static void go_away(struct http2 *http2, uint32_t last_id)
{
    uint32_t payload[2] = {htonl(last_id), 0};
    frames_send(http2, (struct frame){.type = NGHTTP2_GOAWAY}, (char *)payload, sizeof payload);
}

/* A function that answers the request `id`. */
#define ANSWER(name_, ...)                                                                         \
    static void name_(struct http2 *http2, uint32_t id)                                            \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

ANSWER(ignore, (void)http2, (void)id)

static void ignore_third(struct http2 *http2, uint32_t id)
{
    if (http2->requests != 3)
        frames_hello(http2, id);
}

ANSWER(answer_404, SEND(http2, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id, "\x8d"))

/* Interim responses, a frame of an unknown type, padding, and trailers. */
static void answer_at_length(struct http2 *http2, uint32_t id)
{
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS, id,
         "\x08\x03"
         "103");
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS, id,
         "\x08\x03"
         "100");
    SEND(http2, 0x77, 0xff, id, "unknown");
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS, id, OK_FIELDS);
    SEND(http2, NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, id, "\x04hel\0\0\0\0");
    SEND(http2, NGHTTP2_DATA, 0, id, "lo");
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id, "\0\x01x\x01y");
}

ANSWER(reset_stream, reset(http2, id, NGHTTP2_INTERNAL_ERROR))

static void reset_after_headers(struct http2 *http2, uint32_t id)
{
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS, id, OK_FIELDS);
    reset(http2, id, NGHTTP2_NO_ERROR);
}

ANSWER(refuse, reset(http2, id, NGHTTP2_REFUSED_STREAM))
ANSWER(refuse_first_three, (http2->requests <= 3 ? refuse : frames_hello)(http2, id))

/* The first connection takes its first request only. */
static void go_away_after_first(struct http2 *http2, uint32_t id)
{
    if (http2->index)
        frames_hello(http2, id);
    else if (http2->requests == 3)
        go_away(http2, http2->first_id), frames_hello(http2, http2->first_id);
}

/* In two steps, as servers that stop. */
static void go_away_gracefully(struct http2 *http2, uint32_t id)
{
    if (http2->requests > 4)
        return;
    if (http2->requests == 4) {
        go_away(http2, INT32_MAX);
        go_away(http2, id);
    }
    frames_hello(http2, id);
}

static void close_at_once(struct http2 *http2, uint32_t id)
{
    (void)id;
    http2->is_closed = true;
}

ANSWER(close_after_first, (http2->requests == 1 ? frames_hello : close_at_once)(http2, id))

static void close_in_frame(struct http2 *http2, uint32_t id)
{
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS, id, OK_FIELDS);
    frames_send_header(http2, (struct frame){NGHTTP2_DATA, END_STREAM, id}, 5);
    frames_send_bytes(http2, "hel", 3);
    http2->is_closed = true;
}

static void reset_connection(struct http2 *http2, uint32_t id)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS, id, OK_FIELDS);
    (void)!connect(http2->fd, &none, sizeof none); /* aborts the connection */
}

static void answer_too_little(struct http2 *http2, uint32_t id)
{
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS, id, OK_FIELDS);
    SEND(http2, NGHTTP2_DATA, END_STREAM, id, "hell");
}

static void answer_too_much(struct http2 *http2, uint32_t id)
{
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS, id, OK_FIELDS);
    SEND(http2, NGHTTP2_DATA, END_STREAM, id, "hello!");
}

ANSWER(answer_without_body, SEND(http2, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id, OK_FIELDS))
ANSWER(answer_with_capitals,
       SEND(http2, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id, "\x88\0\x01X\x01y"))
ANSWER(answer_without_status,
       SEND(http2, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id, "\0\x01x\x01y"))

static void answer_with_bad_status(struct http2 *http2, uint32_t id)
{
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id,
         "\x08\x03"
         "2x0");
}

/* A field of 4000 bytes in the dynamic table, which each further byte repeats. */
static void answer_with_large_header(struct http2 *http2, uint32_t id)
{
    char block[4200] = "\x88\x40\x01x\x7f\xa1\x1e";
    memset(block + 7, 'y', 4000);
    memset(block + 4007, 0xbe, 17);
    frames_send(http2, (struct frame){NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id}, block,
                4007 + 17);
}

ANSWER(break_compression,
       SEND(http2, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id, "\xff\xff\xff\xff\xff\xff\xff"))

static void serve_no_http2(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)server, (void)index;
    if (recv(fd, text, sizeof text, 0) > 0)
        server_write(fd, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    while (recv(fd, text, sizeof text, 0) > 0)
        ;
}

ANSWER(push, SEND(http2, NGHTTP2_PUSH_PROMISE, END_HEADERS, id, "\0\0\0\x02\x82\x84\x86\x41\x01x"))

static void open_no_window(struct http2 *http2, uint32_t id)
{
    (void)id;
    frames_send_number(http2, NGHTTP2_WINDOW_UPDATE, 0, 0);
}

static void overflow_window(struct http2 *http2, uint32_t id)
{
    (void)id;
    frames_send_number(http2, NGHTTP2_WINDOW_UPDATE, 0, INT32_MAX);
}

ANSWER(answer_idle_stream, frames_hello(http2, id + 1000))
ANSWER(send_large_frame,
       frames_send_header(http2, (struct frame){NGHTTP2_DATA, 0, id}, PAYLOAD_MAX + 1))

/* As much as is received at once. */
static void ping_often(struct http2 *http2, uint32_t id)
{
    for (int i = 0; i < 100; i++)
        SEND(http2, NGHTTP2_PING, 0, 0, "12345678");
    for (int i = 0; i < 100; i++)
        SEND(http2, NGHTTP2_SETTINGS, 0, 0, "\0\x05\0\0\x40\0");
    frames_hello(http2, id);
}

/* The window for the body opens when the request has arrived. */
static void open_window(struct http2 *http2, uint32_t id)
{
    frames_send_number(http2, NGHTTP2_WINDOW_UPDATE, id, 1 << 20);
    frames_hello(http2, id);
}

/* Whether a request was sent before the one before was answered. */
static bool is_crowded;

/* Notes that, once the client has acknowledged the limit: what it had sent before comes first. */
static void answer_late(struct http2 *http2, uint32_t id)
{
    uint8_t header[FRAME_HEADER];
    usleep(2000);
    if (http2->has_settings &&
        recv(http2->fd, header, sizeof header, MSG_PEEK | MSG_DONTWAIT) > 3 &&
        header[3] == NGHTTP2_HEADERS)
        is_crowded = true;
    frames_hello(http2, id);
}

/* Before the client knows the limit of one stream, the server takes the first request only. */
ANSWER(answer_first,
       (http2->requests == 1 || http2->has_settings ? frames_hello : refuse)(http2, id))

/* The first connection allows no stream, and ends; the second one allows streams later. */
static void allow_later(struct http2 *http2, uint32_t id)
{
    if (http2->index) {
        SEND(http2, NGHTTP2_SETTINGS, 0, 0, "\0\x03\0\0\0\x0a");
        frames_hello(http2, id);
    } else {
        refuse(http2, id);
        http2->is_closed = http2->requests == 2;
    }
}

/* ---- Cases ---- */

/* 3 connections of 4 streams make 24 requests. */
static const struct {
    const char *name, *options;
    answer_fn *answer;
    enum load_error error;
    unsigned requests, retried; /* the others fail; ANY: any number */
    unsigned connections;
    const char *reason; /* part of it; NULL: any */
} cases[] = {
#define ANY 1000u
    {"hello", "--expect-length 5", frames_hello, LOAD_OK, 24, 0, ANY, NULL},
    {"one after another", "--streams 1", frames_hello, LOAD_OK, 24, 0, ANY, NULL},
    {"few per connection", "-k 2", frames_hello, LOAD_OK, 24, 0, 12, NULL},
    {"one per connection", "-k 1 --think 1", frames_hello, LOAD_OK, 24, 0, 24, NULL},
    {"several workers", "--workers 2 --think 1", frames_hello, LOAD_OK, 24, 0, ANY, NULL},
    {"open loop", "-r 2000 --max-send-delay 1h", frames_hello, LOAD_OK, 24, 0, ANY, NULL},
    {"all at once", "-r 1m --poisson -k 1", frames_hello, LOAD_OK, 24, 0, 24, NULL},
    {"at length", "--expect-length 5", answer_at_length, LOAD_OK, 24, 0, ANY, NULL},
    {"404", "", answer_404, LOAD_STATUS, 0, 0, ANY, NULL},
    {"404 as expected", "--expect-status 404", answer_404, LOAD_OK, 24, 0, ANY, NULL},
    {"other length", "--expect-length 6", frames_hello, LOAD_LENGTH, 0, 0, ANY, NULL},
    {"reset", "", reset_stream, LOAD_RESET, 0, 0, ANY, NULL},
    {"reset after the header", "", reset_after_headers, LOAD_RESET, 0, 0, ANY, NULL},
    {"refused", "", refuse, LOAD_RESET, 0, 24, ANY, NULL},
    {"refused at first", "-c 1", refuse_first_three, LOAD_OK, 24, 3, ANY, NULL},
    {"goaway", "", go_away_after_first, LOAD_OK, 24, ANY, ANY, NULL},
    {"graceful goaway", "", go_away_gracefully, LOAD_OK, 24, ANY, ANY, NULL},
    {"closed at once", "", close_at_once, LOAD_CLOSED, 0, 0, ANY, NULL},
    {"closed between", "-c 1 --streams 1", close_after_first, LOAD_OK, 24, 23, 24, NULL},
    {"closed in a frame", "", close_in_frame, LOAD_CLOSED, 0, 0, ANY, NULL},
    {"connection reset", "", reset_connection, LOAD_RESET, 0, 0, ANY, NULL},
    {"too little", "", answer_too_little, LOAD_PARSE, 0, 0, ANY, "length"},
    {"too much", "", answer_too_much, LOAD_PARSE, 0, 0, ANY, "length"},
    {"no body", "", answer_without_body, LOAD_PARSE, 0, 0, ANY, "HTTP"},
    {"head", "-m HEAD --expect-length 0", answer_without_body, LOAD_OK, 24, 0, ANY, NULL},
    {"head with a body", "-m HEAD", frames_hello, LOAD_PARSE, 0, 0, ANY, NULL},
    {"capitals", "", answer_with_capitals, LOAD_PARSE, 0, 0, ANY, "HTTP header"},
    {"no status", "", answer_without_status, LOAD_PARSE, 0, 0, ANY, "HTTP"},
    {"bad status", "", answer_with_bad_status, LOAD_PARSE, 0, 0, ANY, "HTTP header"},
    {"large header", "", answer_with_large_header, LOAD_PARSE, 0, 0, ANY, "too long"},
    {"bad compression", "", break_compression, LOAD_PARSE, 0, 0, ANY, "violates"},
    {"push", "", push, LOAD_PARSE, 0, 0, ANY, "Protocol"},
    {"no window", "", open_no_window, LOAD_PARSE, 0, 0, ANY, "Protocol"},
    {"overflow", "", overflow_window, LOAD_PARSE, 0, 0, ANY, "Flow"},
    {"idle stream", "", answer_idle_stream, LOAD_PARSE, 0, 0, ANY, "Protocol"},
    {"large frame", "", send_large_frame, LOAD_PARSE, 0, 0, ANY, NULL},
    {"pings", "", ping_often, LOAD_OK, 24, 0, ANY, NULL},
};

/* options: words, at most 12, that come after those of all cases. */
static struct load_result run_client(const struct server *server, const char *options)
{
    char copy[128], *words[12] = {NULL}, *rest = copy;
    snprintf(copy, sizeof copy, "%s", options);
    for (size_t i = 0; i < 12 && (words[i] = strtok_r(rest, " ", &rest)); i++)
        ;
    return run_against(server, "--http2", "-c", "3", "-n", "24", "--streams", "4", "--timeout",
                       "1h", words[0], words[1], words[2], words[3], words[4], words[5], words[6],
                       words[7], words[8], words[9], words[10], words[11], NULL);
}

static struct load_result run_script(const struct script *script, const char *options)
{
    struct server server;
    frames_start(&server, script);
    struct load_result result = run_client(&server, options);
    server_stop(&server);
    return result;
}

static void check_case(size_t i, const struct load_result *result)
{
    const struct load_metrics *metrics = &result->metrics;
    unsigned errors = 24 - cases[i].requests;
    uint64_t found = errors ? metrics->errors[cases[i].error] : 0;
    if (metrics->requests != cases[i].requests || found != errors ||
        gs_load_metrics_error_count(metrics) != errors)
        TEST_FAIL("%s: %llu requests, %llu errors, %llu of them as expected", cases[i].name,
                  (unsigned long long)metrics->requests,
                  (unsigned long long)gs_load_metrics_error_count(metrics),
                  (unsigned long long)found);
    if (cases[i].retried != ANY && metrics->retried != cases[i].retried)
        TEST_FAIL("%s: %llu retried", cases[i].name, (unsigned long long)metrics->retried);
    if (cases[i].connections != ANY && metrics->connections != cases[i].connections)
        TEST_FAIL("%s: %llu connections", cases[i].name, (unsigned long long)metrics->connections);
    if (cases[i].reason &&
        (!metrics->parse_reason || !strstr(metrics->parse_reason, cases[i].reason)))
        TEST_FAIL("%s: %s", cases[i].name, metrics->parse_reason);
}

TEST(each_request_has_one_outcome_whatever_the_server_does)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct load_result result =
            run_script(&(struct script){.answer = cases[i].answer}, cases[i].options);
        check_case(i, &result);
        gs_load_result_done(&result);
    }
}

TEST(a_server_without_http2_is_named_as_such)
{
    struct server server;
    server_start(&server, serve_no_http2);
    struct load_result result = run_client(&server, "");
    server_stop(&server);
    check_errors(&result, LOAD_PARSE, 24);
    CHECK(strstr(result.metrics.parse_reason, "not HTTP/2"));
    gs_load_result_done(&result);
}

/* A frame of settings with one of them. */
#define SETTING(bytes_) .settings = bytes_, .settings_length = sizeof(bytes_) - 1
#define ONE_STREAM SETTING("\0\x03\0\0\0\x01")

TEST(no_more_streams_are_open_than_the_server_allows)
{
    const struct script script = {.answer = answer_late, ONE_STREAM};
    struct load_result result = run_script(&script, "-c 1 --streams 5 -r 1m -n 20");
    CHECK_EQ(result.metrics.requests, 20);
    CHECK(!is_crowded);
    gs_load_result_done(&result);
}

/* Each connection makes five requests, and the first one sends them at once. */
TEST(requests_that_were_sent_before_the_limit_was_known_are_retried)
{
    const struct script script = {.answer = answer_first, ONE_STREAM};
    struct load_result result = run_script(&script, "-c 1 --streams 5 -k 5 -n 21");
    check_errors(&result, LOAD_RESET, 0);
    CHECK_EQ(result.metrics.requests, 21);
    CHECK_EQ(result.metrics.retried, 4);
    CHECK_EQ(result.metrics.connections, 5);
    gs_load_result_done(&result);
}

TEST(a_server_that_allowed_no_stream_is_asked_again)
{
    const struct script script = {.answer = allow_later, SETTING("\0\x03\0\0\0\0")};
    struct load_result result = run_script(&script, "-c 1 --streams 2 -n 6");
    CHECK_EQ(result.metrics.requests, 6);
    CHECK_EQ(result.metrics.retried, 2);
    gs_load_result_done(&result);
}

TEST(a_request_has_the_fields_that_http1_has)
{
    struct server server;
    char body[] = "[1, 2]";
    frames_start(&server, &(struct script){.answer = frames_hello});
    char url[64];
    snprintf(url, sizeof url, "http://me:secret@127.0.0.1:%u/a?b#c", server.port);
    struct load_result result = run_against(NULL, "--http2", "-n", "1", "-c", "1", "--body", body,
                                            "-H", "X-One:  two ", "-H", "Connection: keep-alive",
                                            "-H", "Host: name", "-H", "Upgrade: x", url, NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 1);
    CHECK_STR(seen.fields, ":method=POST\n:scheme=http\n:authority=name\n:path=/a?b\n"
                           "content-length=6\nauthorization=Basic bWU6c2VjcmV0\nx-one=two\n");
    gs_load_result_done(&result);
}

TEST(the_json_tells_the_protocol_and_its_streams)
{
    const struct load_settings settings = {
        .urls = (char *[]){"http://h/"}, .is_http2 = true, .streams = 4, .connections = 3};
    const struct script script = {.answer = refuse_first_three};
    struct load_result result = run_script(&script, "-c 1"); /* which is refused three */
    char *json;
    size_t n;
    FILE *file = open_memstream(&json, &n);
    CHECK(file);
    CHECK_EQ(gs_load_report_json(&settings, &result, file), 0);
    fclose(file);
    CHECK(strstr(json, "\"protocol\": \"HTTP/2\",\n  \"streams\": 4,\n  \"offered_load\": 12,\n"));
    CHECK(strstr(json, "\"statuses\": {\"200\": 24},\n"));
    CHECK(strstr(json, "\"requests_retried\": 3,\n"));
    free(json);
    gs_load_result_done(&result);
}

TEST(a_stream_that_times_out_is_reset_and_its_connection_kept)
{
    const struct script script = {.answer = ignore_third};
    struct load_result result =
        run_script(&script, "-c 1 --streams 2 -n 10 --think 20 --timeout 150ms");
    check_errors(&result, LOAD_TIMEOUT, 1);
    CHECK_EQ(result.metrics.requests, 9);
    CHECK_EQ(result.metrics.connections, 1);
    CHECK_EQ(seen.resets, 1);
    gs_load_result_done(&result);
}

TEST(a_connection_on_which_nothing_arrives_until_the_timeout_is_closed)
{
    const struct script script = {.answer = ignore};
    struct load_result result = run_script(&script, "-c 1 --streams 2 -n 6 --timeout 100ms");
    check_errors(&result, LOAD_TIMEOUT, 6);
    CHECK_EQ(result.metrics.connections, 2);
    CHECK_EQ(seen.goaways, 2);
    gs_load_result_done(&result);
}

TEST(a_body_is_sent_as_the_window_opens)
{
    static char body[100001];
    struct server server;
    memset(body, 'x', sizeof body - 1);
    frames_start(&server, &(struct script){.answer = open_window, SETTING("\0\x04\0\0\0\0")});
    struct load_result result =
        run_against(&server, "--http2", "-c", "1", "-n", "3", "--body", body, NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 3);
    gs_load_result_done(&result);
}
