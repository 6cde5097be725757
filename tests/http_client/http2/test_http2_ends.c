/* HTTP/2 with a server that the test plays: requests that are refused, and connections that end. */
#include "tests/http_client/scripted.h"

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE };

#define ACK 1
#define END_STREAM 1
#define END_HEADERS 4

/* ---- The server ---- */

struct frame {
    size_t n;
    uint8_t type, flags, id;
    unsigned char payload[20000];
};

static bool receive_all(int fd, void *bytes, size_t n)
{
    return gs_recv(fd, bytes, n, MSG_WAITALL, after(PATIENCE_NS)) == (ssize_t)n;
}

/* Returns whether there was one. */
static bool next_frame(int fd, struct frame *frame)
{
    unsigned char header[9];
    if (!receive_all(fd, header, sizeof header))
        return false;
    *frame = (struct frame){.n = (size_t)header[1] << 8 | header[2],
                            .type = header[3],
                            .flags = header[4],
                            .id = header[8]};
    MUST(frame->n < sizeof frame->payload && !header[0]);
    return !frame->n || receive_all(fd, frame->payload, frame->n);
}

static bool send_frame(int fd, uint8_t type, uint8_t flags, uint8_t id, struct iovec payload)
{
    unsigned char frame[100] = {0, 0, (unsigned char)payload.iov_len, type, flags, 0, 0, 0, id};
    memcpy(frame + 9, payload.iov_base, payload.iov_len);
    return send_text(fd, (const char *)frame, 9 + payload.iov_len);
}

#define BYTES(literal) ((struct iovec){"" literal, sizeof(literal) - 1})

static bool greet(int fd)
{
    char preface[24];
    return receive_all(fd, preface, sizeof preface) && send_frame(fd, SETTINGS, 0, 0, BYTES(""));
}

/* Returns the stream of the next request; 0: there is none. */
static uint8_t await_request(int fd)
{
    struct frame *frame = malloc(sizeof *frame);
    uint8_t id = 0;
    while (!id && next_frame(fd, frame))
        if (frame->type == HEADERS)
            id = frame->id;
    free(frame);
    request_count += id > 0;
    return id;
}

static void await_end(int fd)
{
    while (await_request(fd))
        continue;
}

static bool answer(int fd, uint8_t id)
{
    return send_frame(fd, HEADERS, END_HEADERS, id, BYTES("\x88")) &&
           send_frame(fd, DATA, END_STREAM, id, BYTES("ok"));
}

static void answer_all(int fd)
{
    uint8_t id;
    while ((id = await_request(fd)))
        answer(fd, id);
}

/* ---- The client ---- */

static void start(void (*serve)(int fd, unsigned number))
{
    const struct gs_http_client_options options = {.assumes_http2 = true};
    script.serve = serve;
    synchronise();
    new_client(&options);
}

static int post_error(void)
{
    char url[100];
    struct gs_http_response *response = NULL;
    const struct gs_http_client_request request = {.url = url, .body = "body", .body_n = 4};
    snprintf(url, sizeof url, "%s/", script_url); /* url_of is not for several threads */
    int err = gs_http_fetch(client, &request, after(PATIENCE_NS), &response);
    gs_http_response_free(response);
    return err;
}

static void *post(void *ret_err)
{
    *(int *)ret_err = post_error();
    return NULL;
}

/* ---- Requests that were not processed ---- */

static void refuse_once(int fd, unsigned number)
{
    (void)number;
    if (greet(fd) && send_frame(fd, RST_STREAM, 0, await_request(fd), BYTES("\0\0\0\7")))
        answer_all(fd);
}

SCRIPT_TEST(a_request_that_is_refused_is_sent_again)
{
    start(refuse_once);
    MUST_EQ(post_error(), 0);
    MUST_EQ(connection_count, 1);
    MUST_EQ(request_count, 2);
}

static void refuse_all(int fd, unsigned number)
{
    uint8_t id;
    (void)number;
    greet(fd);
    while ((id = await_request(fd)))
        send_frame(fd, RST_STREAM, 0, id, BYTES("\0\0\0\7"));
}

SCRIPT_TEST(a_request_is_sent_twice_at_most)
{
    start(refuse_all);
    MUST_EQ(post_error(), -ECONNRESET);
    MUST_EQ(request_count, 2);
}

static void go_away_at_once(int fd, unsigned number)
{
    if (!greet(fd))
        return;
    uint8_t id = await_request(fd);
    if (number % 2)
        answer(fd, id);
    else
        send_frame(fd, GOAWAY, 0, 0, BYTES("\0\0\0\0\0\0\0\0"));
    await_end(fd);
}

SCRIPT_TEST(a_request_that_goaway_leaves_out_is_sent_on_another_connection)
{
    start(go_away_at_once);
    MUST_EQ(post_error(), 0);
    MUST_EQ(connection_count, 2);
}

/* The first of two requests is answered after GOAWAY, which leaves out the second. */
static void go_away_between(int fd, unsigned number)
{
    if (!greet(fd))
        return;
    uint8_t first = await_request(fd);
    if (!number) {
        (void)await_request(fd);
        send_frame(fd, GOAWAY, 0, 0, BYTES("\0\0\0\1\0\0\0\0"));
    }
    answer(fd, first);
    await_end(fd);
}

SCRIPT_TEST(what_goaway_does_not_leave_out_is_completed)
{
    int errors[2];
    struct gs_thread *threads[2];
    start(go_away_between);
    for (int i = 0; i < 2; i++)
        threads[i] = spawn(post, &errors[i]);
    for (int i = 0; i < 2; i++)
        join(threads[i]);
    MUST_EQ(errors[0], 0);
    MUST_EQ(errors[1], 0);
    MUST_EQ(connection_count, 2);
}

/* ---- Connections that are lost ---- */

static unsigned answered; /* before the connection is closed */

static void answer_some(int fd, unsigned number)
{
    greet(fd);
    for (unsigned i = 0; i < answered; i++)
        answer(fd, await_request(fd));
    if (number)
        answer_all(fd);
    else
        (void)await_request(fd);
}

SCRIPT_TEST(a_request_on_a_new_connection_that_is_lost_fails)
{
    answered = 0;
    start(answer_some);
    MUST_EQ(get_error("/"), -ECONNRESET);
    MUST_CONTAIN(gs_http_client_error(), "closed the connection");
    MUST_EQ(connection_count, 1);
    must_get("/", "ok");
}

SCRIPT_TEST(a_get_on_a_used_connection_that_is_lost_is_sent_again)
{
    answered = 1;
    start(answer_some);
    must_get("/", "ok");
    must_get("/", "ok");
    MUST_EQ(connection_count, 2);
}

SCRIPT_TEST(a_post_on_a_connection_that_is_lost_is_not_sent_again)
{
    answered = 1;
    start(answer_some);
    must_get("/", "ok");
    MUST_EQ(post_error(), -ECONNRESET);
    MUST_EQ(connection_count, 1);
    must_get("/", "ok");
}

SCRIPT_TEST(a_lost_connection_ends_all_of_its_requests)
{
    int errors[50];
    struct gs_thread *threads[50];
    answered = 0;
    start(answer_some);
    for (int i = 0; i < 50; i++)
        threads[i] = spawn(post, &errors[i]);
    for (int i = 0; i < 50; i++)
        join(threads[i]);
    unsigned lost = 0;
    for (int i = 0; i < 50; i++) {
        MUST(!errors[i] || errors[i] == -ECONNRESET);
        lost += errors[i] != 0;
    }
    MUST(lost >= 1);
}

static void speak_http_1(int fd, unsigned number)
{
    char preface[24];
    (void)number;
    receive_all(fd, preface, sizeof preface);
    say(fd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    await_end(fd);
}

SCRIPT_TEST(a_server_that_speaks_something_else_is_an_error)
{
    start(speak_http_1);
    MUST_EQ(get_error("/"), -EPROTO);
    MUST_CONTAIN(gs_http_client_error(), "violates HTTP/2");
}

/* ---- Idle connections ---- */

static _Atomic(bool) has_said;

static void ping_between(int fd, unsigned number)
{
    struct frame *frame = malloc(sizeof *frame);
    (void)number;
    greet(fd);
    answer(fd, await_request(fd));
    send_frame(fd, PING, 0, 0, BYTES("12345678"));
    has_said = true;
    bool has_answer = false;
    uint8_t id = 0;
    while (!id && next_frame(fd, frame)) {
        has_answer |= frame->type == PING && frame->flags == ACK;
        id = frame->type == HEADERS ? frame->id : 0;
    }
    free(frame);
    if (id && has_answer)
        answer(fd, id);
    await_end(fd);
}

static void await_said(void)
{
    while (!has_said)
        gs_thread_yield();
    MUST_EQ(gs_thread_sleep(after(5 * GS_MILLISECOND)), 0);
}

SCRIPT_TEST(a_ping_on_an_idle_connection_is_answered_before_the_next_request)
{
    has_said = false;
    start(ping_between);
    must_get("/", "ok");
    await_said();
    must_get("/", "ok");
    MUST_EQ(connection_count, 1);
}

static void go_away_idle(int fd, unsigned number)
{
    greet(fd);
    answer(fd, await_request(fd));
    if (number)
        answer_all(fd);
    send_frame(fd, GOAWAY, 0, 0, BYTES("\0\0\0\1\0\0\0\0"));
    has_said = true;
    await_end(fd);
}

SCRIPT_TEST(an_idle_connection_after_goaway_is_not_used)
{
    has_said = false;
    start(go_away_idle);
    must_get("/", "ok");
    await_said();
    MUST_EQ(post_error(), 0);
    MUST_EQ(connection_count, 2);
}

/* It takes requests, and says nothing. */
static void die_after_one(int fd, unsigned number)
{
    greet(fd);
    answer(fd, await_request(fd));
    if (number)
        answer_all(fd);
    await_end(fd);
}

SCRIPT_TEST(a_connection_on_which_nothing_arrives_is_used_no_more)
{
    struct gs_http_response *response = NULL;
    start(die_after_one);
    must_get("/", "ok");
    MUST_EQ(gs_http_get(client, url_of("/"), after(20 * GS_MILLISECOND), &response), -ETIMEDOUT);
    must_get("/", "ok");
    MUST_EQ(connection_count, 2);
}

SCRIPT_TEST(an_idle_connection_is_closed_when_its_time_is_over)
{
    const struct gs_http_client_options options = {.assumes_http2 = true, .idle_timeout_ns = 1};
    start(die_after_one);
    new_client(&options);
    must_get("/", "ok");
    must_get("/", "ok");
    MUST_EQ(connection_count, 2);
}
