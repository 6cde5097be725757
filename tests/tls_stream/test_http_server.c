/* gs_http_serve over TLS. */
#include "tests/http_server/serving.h"
#include "tests/tls_stream/contexts.h"

#include <gossamer/resumable.h>
#include <gossamer/tls.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static struct gs_tls *connect_tls_client(void)
{
    struct gs_tls *tls = NULL;
    char text[GS_TLS_TEXT] = "";
    int fd = connect_client();
    MUST_EQ(gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
    int err = gs_tls_connect(client_context, fd, "server.test", after(PATIENCE_NS), &tls, text);
    if (err)
        fprintf(stderr, "%s\n", text);
    MUST_EQ(err, 0);
    return tls;
}

static void say_tls(struct gs_tls *tls, const char *text)
{
    MUST_EQ(gs_tls_send_all(tls, text, strlen(text), after(PATIENCE_NS)), strlen(text));
}

/* Until the text has `wanted`; NULL: to the end. Returns the last result of receiving. */
static ssize_t hear_tls(struct gs_tls *tls, struct heard *heard, const char *wanted)
{
    ssize_t n = 1;
    heard->bytes[heard->n] = '\0';
    while (n > 0 && (!wanted || !strstr(heard->bytes, wanted))) {
        n = gs_tls_recv(tls, heard->bytes + heard->n, sizeof heard->bytes - 1 - heard->n,
                        after(PATIENCE_NS));
        heard->n += n > 0 ? (size_t)n : 0;
        heard->bytes[heard->n] = '\0';
    }
    return n;
}

static char page[60000];

static void serve_tls_with(struct gs_http_server options, gs_thread_fn *clients)
{
    memset(page, 'p', sizeof page - 1);
    make_contexts();
    options.tls = server_context;
    serve_with(&options, clients);
    release_contexts();
}

/* ---- Requests ---- */

/* Answer with the body; of /big with the page behind it, of /close without a length. */
static void answer(struct gs_http_exchange *exchange, void *unused)
{
    static const char end[] = "the end";
    char *body = malloc(sizeof page);
    (void)unused;
    MUST(body && exchange->is_tls);
    ssize_t n = gs_http_read_all(exchange, body, sizeof page);
    MUST(n >= 0);
    if (!strcmp(exchange->path, "/abort")) {
        MUST_EQ(gs_http_start(exchange, 200, NULL, 1000), 0);
        MUST_EQ(gs_http_write(exchange, body, 0), 0);
        gs_http_abort(exchange);
    } else {
        MUST_EQ(gs_http_start(exchange, 200, NULL, GS_HTTP_UNKNOWN), 0);
        MUST_EQ(gs_http_write(exchange, body, (size_t)n), 0);
        if (!strcmp(exchange->path, "/big"))
            MUST_EQ(gs_http_write(exchange, page, sizeof page - 1), 0);
        MUST_EQ(gs_http_write(exchange, end, sizeof end - 1), 0);
    }
    free(body);
}

static void *be_client(void *unused)
{
    struct heard *heard = malloc(sizeof *heard);
    MUST(heard);
    struct gs_tls *tls = connect_tls_client();
    for (int i = 0; i < 10; i++) {
        heard->n = 0;
        say_tls(tls, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12345");
        hear_tls(tls, heard, "the end");
        MUST_CONTAIN(heard->bytes, "12345");
    }
    heard->n = 0;
    say_tls(tls, "POST /big HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n");
    say_tls(tls, "1\r\n5\r\n0\r\n\r\n");
    MUST_EQ(hear_tls(tls, heard, NULL), 0); /* not -ECONNRESET */
    MUST(heard->n > sizeof page);
    MUST_CONTAIN(heard->bytes, page);
    gs_tls_close(tls, after(PATIENCE_NS));
    free(heard);
    return unused;
}

static void *be_clients(void *unused)
{
    struct gs_thread *clients[8];
    start_server();
    for (int i = 0; i < 8; i++)
        clients[i] = spawn(be_client, NULL);
    for (int i = 0; i < 8; i++)
        join(clients[i]);
    stop_server();
    return unused;
}

TEST(requests_are_answered_as_without_tls)
{
    serve_tls_with((struct gs_http_server){.handler = answer}, be_clients);
    serve_tls_with((struct gs_http_server){.handler = answer, .migrates = true}, be_clients);
}

static void *upload(void *unused)
{
    static struct heard heard;
    start_server();
    struct gs_tls *tls = connect_tls_client();
    heard.n = 0;
    say_tls(tls, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 59999\r\n\r\n");
    say_tls(tls, page);
    say_tls(tls, "GET / HTTP/1.0\r\n\r\n");
    MUST_EQ(gs_tls_shutdown(tls, after(PATIENCE_NS)), 0);
    MUST_EQ(hear_tls(tls, &heard, NULL), 0);
    MUST_CONTAIN(heard.bytes, page);
    MUST_EQ(count_of(heard.bytes, "HTTP/1.1 200 OK"), 2);
    MUST(ends_with(heard.bytes, "\r\n\r\nthe end"));
    gs_tls_close(tls, after(PATIENCE_NS));
    stop_server();
    return unused;
}

TEST(a_body_is_received_and_the_end_of_the_stream_ends_the_connection)
{
    serve_tls_with((struct gs_http_server){.handler = answer}, upload);
}

static void *miss_the_end(void *unused)
{
    static struct heard heard;
    start_server();
    struct gs_tls *tls = connect_tls_client();
    heard.n = 0;
    say_tls(tls, "GET /abort HTTP/1.1\r\nHost: h\r\n\r\n");
    MUST_EQ(hear_tls(tls, &heard, NULL), -ECONNRESET);
    gs_tls_close(tls, after(PATIENCE_NS));
    stop_server();
    return unused;
}

TEST(an_incomplete_response_does_not_end_the_stream)
{
    serve_tls_with((struct gs_http_server){.handler = answer}, miss_the_end);
}

static void respond_at_once(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "the end", 7), 0);
}

static atomic_uint sends; /* of the whole program */

static long count_sends(long number, void *unused)
{
    (void)unused;
    if (number == SYS_sendto || number == SYS_sendmsg)
        sends++;
    return 0;
}

static void *ask_twice(void *unused)
{
    static struct heard heard;
    start_server();
    struct gs_tls *tls = connect_tls_client();
    heard.n = 0;
    say_tls(tls, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    hear_tls(tls, &heard, "the end");
    sends = 0;
    gs_sys_set_fault(count_sends, NULL);
    say_tls(tls, "GET / HTTP/1.0\r\n\r\n");
    MUST_EQ(hear_tls(tls, &heard, NULL), 0);
    gs_sys_set_fault(NULL, NULL);
    MUST_EQ(count_of(heard.bytes, "the end"), 2);
    MUST_EQ(sends, 2); /* one of the client, and one of the server */
    gs_tls_close(tls, after(PATIENCE_NS));
    stop_server();
    return unused;
}

TEST(the_end_is_sent_with_the_last_response)
{
    serve_tls_with((struct gs_http_server){.handler = respond_at_once}, ask_twice);
}

/* ---- Waiting connections ---- */

static uint64_t live_threads(void)
{
    struct gs_threads_stats stats;
    gs_threads_stats(&stats);
    return stats.live;
}

#define CLIENTS 24

static void *wait_idly(void *unused)
{
    static struct heard heard;
    struct gs_tls *clients[CLIENTS];
    uint64_t before = live_threads(), keepers = gs_threads_workers();
    start_server();
    for (int i = 0; i < 2 * CLIENTS; i++) {
        if (i < CLIENTS)
            clients[i] = connect_tls_client();
        heard.n = 0;
        say_tls(clients[i % CLIENTS], "GET / HTTP/1.1\r\n");
        say_tls(clients[i % CLIENTS], "Host: h\r\n\r\n");
        hear_tls(clients[i % CLIENTS], &heard, "the end");
    }
    /* A resumable counts as a thread: one for each connection, and no other. */
    while (live_threads() != before + 1 + keepers + CLIENTS)
        gs_thread_end_turn();
    gs_thread_cancel(server_thread);
    for (int i = 0; i < CLIENTS; i++) {
        MUST_EQ(hear_tls(clients[i], &heard, NULL), 0); /* the server says good-bye */
        gs_tls_close(clients[i], after(PATIENCE_NS));
    }
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
    return unused;
}

TEST(a_connection_that_waits_for_a_request_has_no_thread)
{
    serve_tls_with((struct gs_http_server){.handler = answer}, wait_idly);
}

/* ---- Failures ---- */

#define FLOOD 1000000

/* An alert, or a plain answer, arrives although the server does not read all that was sent; also if
 * the failure is found without a thread, in the rest of a handshake. */
static void *fail_handshakes(void *unused)
{
    static const char *const beginnings[] = {"\x16\x03\x01\x01", "GET / HTTP/1.0\r\n\r\n"};
    static char flood[FLOOD], heard[100];
    start_server();
    for (int is_apart = 0; is_apart < 2; is_apart++)
        for (unsigned i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
            int fd = connect_client();
            say(fd, beginnings[i]);
            for (int turn = 0; is_apart && turn < 10; turn++)
                gs_thread_end_turn();
            MUST_EQ(gs_send_all(fd, flood, FLOOD, after(PATIENCE_NS)), FLOOD);
            MUST_EQ(gs_sys_shutdown(fd, SHUT_WR), 0);
            ssize_t n = gs_recv(fd, heard, sizeof heard, 0, after(PATIENCE_NS));
            MUST(n > 0);
            MUST_EQ(*heard, i ? 'H' : 0x15);
            gs_close(fd);
        }
    stop_server();
    return unused;
}

TEST(the_reason_of_a_failure_arrives)
{
    serve_tls_with((struct gs_http_server){.handler = answer}, fail_handshakes);
}

/* Silence, a part of a handshake, what is no TLS, and a handshake without a request. */
static void *be_slow(void *unused)
{
    static const char *const beginnings[] = {"", "\x16\x03\x01", "GET / HTTP/1.0\r\n\r\n"};
    char byte[100];
    start_server();
    for (unsigned i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        int fd = connect_client();
        say(fd, beginnings[i]);
        ssize_t n = gs_recv(fd, byte, sizeof byte, 0, after(PATIENCE_NS));
        MUST(i < 2 ? n == 0 : n > 12 && !memcmp(byte, "HTTP/1.1 400", 12));
        gs_close(fd);
    }
    struct gs_tls *tls = connect_tls_client();
    MUST_EQ(gs_tls_recv(tls, byte, 1, after(PATIENCE_NS)), 0);
    gs_tls_close(tls, after(PATIENCE_NS));
    tls = connect_tls_client();
    say_tls(tls, "GET / HT");
    MUST(gs_tls_recv(tls, byte, sizeof byte, after(PATIENCE_NS)) > 12);
    MUST(!memcmp(byte, "HTTP/1.1 408", 12));
    gs_tls_close(tls, after(PATIENCE_NS));
    stop_server();
    return unused;
}

TEST(the_time_for_a_header_limits_the_handshake)
{
    serve_tls_with(
        (struct gs_http_server){.handler = answer, .header_timeout_ns = 50 * GS_MILLISECOND},
        be_slow);
}
