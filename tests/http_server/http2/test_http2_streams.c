/* HTTP/2: bodies, windows, and streams that end early, each of which concerns its stream only. */
#include "tests/http_server/http2/peer.h"

#include <stdatomic.h>

static struct peer peer;

static void run_each_way(gs_http_handler_fn *handler, gs_thread_fn *clients)
{
    serve_with(&(struct gs_http_server){.handler = handler}, clients);
    serve_with(&(struct gs_http_server){.handler = handler, .migrates = true}, clients);
}

/* ---- Handlers that wait ---- */

static struct gs_semaphore entered, may_answer;
static atomic_int handler_result;

static void greet(struct gs_http_exchange *exchange)
{
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "hello", 5), 0);
}

static void wait_if_asked(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    if (!strcmp(exchange->path, "/wait")) {
        gs_semaphore_post(&entered);
        MUST_EQ(gs_semaphore_wait(&may_answer, GS_NEVER), 0);
    }
    greet(exchange);
}

static void *overtake(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t waiting = peer_get(&peer, "/wait");
    for (int i = 0; i < 5; i++)
        MUST_EQ(peer_fetch(&peer, "/")->body_n, 5);
    MUST(!peer_stream(&peer, waiting)->is_closed);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    gs_semaphore_post(&may_answer);
    PEER_UNTIL(&peer, peer_stream(&peer, waiting)->is_closed);
    MUST_EQ(strcmp(peer_stream(&peer, waiting)->body, "hello"), 0);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(handler_that_waits_holds_up_no_other_stream)
{
    run_each_way(wait_if_asked, overtake);
}

static void *ask_for_too_many(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    PEER_UNTIL(&peer, peer.settings >= 2); /* ours is acknowledged; now resets make room */
    int32_t ids[3];
    for (int i = 0; i < 2; i++) {
        ids[i] = peer_get(&peer, "/wait");
        peer_send(&peer);
        MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
        peer_reset(&peer, ids[i]);
    }
    ids[2] = peer_get(&peer, "/"); /* the threads of the first two are left */
    PEER_UNTIL(&peer, peer_stream(&peer, ids[2])->is_closed);
    MUST_EQ(peer_stream(&peer, ids[2])->error, NGHTTP2_REFUSED_STREAM);
    gs_semaphore_post(&may_answer);
    gs_semaphore_post(&may_answer);
    while (peer_fetch(&peer, "/")->error == NGHTTP2_REFUSED_STREAM)
        gs_thread_end_turn();
    peer_close(&peer);
    stop_server();
    return unused;
}

static void respond_and_wait(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    greet(exchange);
    MUST_EQ(gs_semaphore_wait(&may_answer, GS_NEVER), 0);
}

static void *ask_while_handlers_go_on(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    for (int i = 0; i < 4; i++)
        MUST_EQ(peer_fetch(&peer, "/")->error, NGHTTP2_NO_ERROR);
    MUST_EQ(peer_fetch(&peer, "/")->error, NGHTTP2_REFUSED_STREAM);
    for (int i = 0; i < 4; i++)
        gs_semaphore_post(&may_answer);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(handlers_that_go_on_after_their_responses_make_room_for_as_many)
{
    serve_with(&(struct gs_http_server){.handler = respond_and_wait, .max_streams = 2},
               ask_while_handlers_go_on);
}

static void wait_and_fail(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    if (!strcmp(exchange->path, "/wait")) {
        gs_semaphore_post(&entered);
        MUST_EQ(gs_semaphore_wait(&may_answer, GS_NEVER), 0);
        (void)!gs_http_respond(exchange, 200, NULL, "hello", 5);
    } else {
        greet(exchange);
    }
}

TEST(threads_of_streams_that_were_reset_count_as_streams)
{
    serve_with(&(struct gs_http_server){.handler = wait_and_fail, .max_streams = 2},
               ask_for_too_many);
}

/* ---- Bodies of requests ---- */

static void count_body(struct gs_http_exchange *exchange, void *unused)
{
    char bytes[1000], text[40];
    size_t total = 0;
    ssize_t n;
    (void)unused;
    MUST_EQ(exchange->content_length, GS_HTTP_UNKNOWN);
    while ((n = gs_http_read(exchange, bytes, sizeof bytes)) > 0) {
        MUST(bytes[0] == 'x' && bytes[n - 1] == 'x');
        total += (size_t)n;
    }
    int length = snprintf(text, sizeof text, "%zu %zd", total, n);
    if (n != -EFBIG)
        MUST_EQ(gs_http_respond(exchange, 200, NULL, text, (size_t)length), 0);
}

static void *upload(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t small = peer_post(&peer, "/", 5, true);
    int32_t large = peer_post(&peer, "/", 1000000, false);
    int32_t empty = peer_post(&peer, "/", 0, false);
    int32_t too_large = peer_post(&peer, "/", 1500000, false);
    PEER_UNTIL(&peer, peer_stream(&peer, large)->is_closed && peer_stream(&peer, empty)->is_closed);
    MUST_EQ(strcmp(peer_stream(&peer, large)->body, "1000000 0"), 0);
    MUST_EQ(strcmp(peer_stream(&peer, empty)->body, "0 0"), 0);
    PEER_UNTIL(&peer, peer_stream(&peer, too_large)->is_closed);
    MUST_EQ(peer_stream(&peer, too_large)->status, 413);
    MUST_EQ(peer_stream(&peer, small)->status, 0);
    peer_stream(&peer, small)->is_held = false;
    MUST_EQ(nghttp2_session_resume_data(peer.session, small), 0);
    PEER_UNTIL(&peer, peer_stream(&peer, small)->is_closed);
    MUST_EQ(strcmp(peer_stream(&peer, small)->body, "5 0"), 0);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(bodies_are_read_as_they_arrive)
{
    run_each_way(count_body, upload);
}

/* The handler of the first stream reads nothing until another stream's body was read. */
static void read_late(struct gs_http_exchange *exchange, void *unused)
{
    if (!strcmp(exchange->path, "/late")) {
        gs_semaphore_post(&entered);
        MUST_EQ(gs_semaphore_wait(&may_answer, GS_NEVER), 0);
    }
    count_body(exchange, unused);
}

static void *upload_beside_an_unread_body(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t late = peer_post(&peer, "/late", 300000, false);
    int32_t other = peer_post(&peer, "/", 300000, false);
    PEER_UNTIL(&peer, peer_stream(&peer, other)->is_closed);
    MUST_EQ(strcmp(peer_stream(&peer, other)->body, "300000 0"), 0);
    MUST(peer_stream(&peer, late)->upload_n >= 300000 - 65535); /* its window is full */
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    gs_semaphore_post(&may_answer);
    PEER_UNTIL(&peer, peer_stream(&peer, late)->is_closed);
    MUST_EQ(strcmp(peer_stream(&peer, late)->body, "300000 0"), 0);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(body_that_is_not_read_fills_its_own_window_only)
{
    run_each_way(read_late, upload_beside_an_unread_body);
}

static void *upload_in_small_parts(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t id = peer_post(&peer, "/", 50000, false);
    peer_stream(&peer, id)->part_n = 10;
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    MUST_EQ(strcmp(peer_stream(&peer, id)->body, "50000 0"), 0);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(body_may_arrive_in_small_parts)
{
    run_each_way(count_body, upload_in_small_parts);
}

static void answer_without_reading(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    greet(exchange);
}

static void *upload_for_nothing(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t id = peer_post(&peer, "/", 300000, false);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    MUST_EQ(peer_stream(&peer, id)->status, 200);
    MUST_EQ(peer_stream(&peer, id)->error, NGHTTP2_NO_ERROR);
    MUST_EQ(peer_fetch(&peer, "/")->status, 200);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(client_is_told_that_a_body_is_not_wanted)
{
    run_each_way(answer_without_reading, upload_for_nothing);
}

static void respond_then_read(struct gs_http_exchange *exchange, void *unused)
{
    char bytes[10];
    (void)unused;
    greet(exchange);
    gs_semaphore_post(&entered);
    atomic_store(&handler_result, (int)gs_http_read_all(exchange, bytes, sizeof bytes));
}

static void *send_body_after_the_response(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t id = peer_post(&peer, "/", 3, true);
    struct peer_stream *stream = peer_stream(&peer, id);
    PEER_UNTIL(&peer, stream->body_n == 5);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    stream->is_held = false;
    (void)nghttp2_session_resume_data(peer.session, id);
    PEER_UNTIL(&peer, stream->is_closed);
    peer_close(&peer);
    stop_server();
    MUST_EQ(atomic_load(&handler_result), 3);
    return unused;
}

TEST(body_can_be_read_after_the_response)
{
    run_each_way(respond_then_read, send_body_after_the_response);
}

static void *expect_continue(void *unused)
{
    static const nghttp2_data_provider body = {{.ptr = NULL}, peer_read_body};
    const nghttp2_nv fields[] = {peer_field(":method", "POST"), peer_field(":path", "/"),
                                 peer_field(":scheme", "http"), peer_field(":authority", "h"),
                                 peer_field("expect", "100-continue")};
    start_server();
    peer_open(&peer, connect_client());
    int32_t id = nghttp2_submit_request(peer.session, NULL, fields, 5, &body, NULL);
    struct peer_stream *stream = peer_stream(&peer, id);
    stream->is_held = true;
    PEER_UNTIL(&peer, stream->continues == 1);
    stream->upload_n = 4;
    stream->is_held = false;
    MUST_EQ(nghttp2_session_resume_data(peer.session, id), 0);
    PEER_UNTIL(&peer, stream->is_closed);
    MUST_EQ(stream->status, 200);
    MUST_EQ(strcmp(stream->body, "4 0"), 0);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(client_that_expects_100_continue_gets_it)
{
    run_each_way(count_body, expect_continue);
}

/* ---- Bodies of responses ---- */

#define PAGE 1000000

static void write_much(struct gs_http_exchange *exchange, void *unused)
{
    static char page[PAGE];
    bool is_large = !strcmp(exchange->path, "/large");
    (void)unused;
    MUST_EQ(gs_http_start(exchange, 200, NULL, GS_HTTP_UNKNOWN), 0);
    int err = gs_http_write(exchange, "begin", 5);
    if (!err)
        err = gs_http_write(exchange, page, is_large ? PAGE : 100);
    if (!err)
        err = gs_http_write(exchange, "end", 3);
    atomic_store(&handler_result, err);
    gs_semaphore_post(&entered);
}

static void *download(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t large = peer_get(&peer, "/large"), small = peer_get(&peer, "/");
    PEER_UNTIL(&peer, peer_stream(&peer, small)->is_closed);
    PEER_UNTIL(&peer, peer_stream(&peer, large)->is_closed);
    MUST_EQ(peer_stream(&peer, small)->body_n, 108);
    MUST_EQ(peer_stream(&peer, large)->body_n, PAGE + 8);
    int32_t head = peer_ask(&peer, "HEAD", "/large", NULL, NULL);
    PEER_UNTIL(&peer, peer_stream(&peer, head)->is_closed);
    MUST_EQ(peer_stream(&peer, head)->status, 200);
    MUST_EQ(peer_stream(&peer, head)->body_n, 0);
    peer_close(&peer);
    stop_server();
    while (!gs_semaphore_wait(&entered, 0))
        ;
    MUST_EQ(atomic_load(&handler_result), 0);
    return unused;
}

TEST(responses_are_written_as_the_windows_allow)
{
    run_each_way(write_much, download);
}

/* A window of 10 bytes, which opens by hand. */
static void open_with_small_windows(void)
{
    static const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10};
    peer_open_with(&peer, connect_client(), &window, 1, true);
    PEER_UNTIL(&peer, peer.settings >= 2);
}

static void *keep_the_window_shut(void *unused)
{
    start_server();
    open_with_small_windows();
    int32_t large = peer_get(&peer, "/large");
    PEER_UNTIL(&peer, peer_stream(&peer, large)->body_n == 10);
    PEER_UNTIL(&peer, peer_stream(&peer, large)->is_closed); /* after the time for writing */
    MUST_EQ(peer_stream(&peer, large)->error, NGHTTP2_INTERNAL_ERROR);
    MUST_EQ(peer_stream(&peer, large)->body_n, 10);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    MUST_EQ(atomic_load(&handler_result), -ETIMEDOUT);
    MUST(!peer.is_over);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(handler_waits_for_a_window_until_its_deadline)
{
    serve_with(
        &(struct gs_http_server){.handler = write_much, .write_timeout_ns = 50 * GS_MILLISECOND},
        keep_the_window_shut);
}

/* ---- Resets ---- */

static void *reset_while_writing(void *unused)
{
    start_server();
    open_with_small_windows();
    int32_t large = peer_get(&peer, "/large");
    PEER_UNTIL(&peer, peer_stream(&peer, large)->body_n == 10);
    peer_reset(&peer, large);
    peer_send(&peer);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    MUST_EQ(atomic_load(&handler_result), -EPIPE);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(reset_fails_a_handler_that_writes)
{
    run_each_way(write_much, reset_while_writing);
}

static void *end_while_writing(void *unused)
{
    start_server();
    open_with_small_windows();
    int32_t large = peer_get(&peer, "/large");
    PEER_UNTIL(&peer, peer_stream(&peer, large)->body_n == 10);
    MUST_EQ(gs_sys_shutdown(peer.fd, SHUT_WR), 0); /* so the window stays as it is */
    MUST_EQ(gs_semaphore_wait(&entered, after(PATIENCE_NS)), 0);
    MUST_EQ(atomic_load(&handler_result), -EPIPE);
    while (!peer.is_over)
        peer_receive(&peer);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(end_of_the_stream_fails_a_handler_that_waits_for_a_window)
{
    run_each_way(write_much, end_while_writing);
}

static void read_once_more(struct gs_http_exchange *exchange, void *unused)
{
    char bytes[10];
    ssize_t n;
    (void)unused;
    gs_semaphore_post(&entered);
    while ((n = gs_http_read(exchange, bytes, sizeof bytes)) > 0)
        ;
    MUST_EQ(gs_http_read(exchange, bytes, sizeof bytes), n);
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "x", 1), -EPIPE);
    atomic_store(&handler_result, (int)n);
    gs_semaphore_post(&may_answer);
}

static void *reset_while_reading(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t id = peer_post(&peer, "/", 5, true);
    peer_send(&peer);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    peer_reset(&peer, id);
    peer_send(&peer);
    MUST_EQ(gs_semaphore_wait(&may_answer, GS_NEVER), 0);
    MUST_EQ(atomic_load(&handler_result), -ECONNRESET);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(reset_fails_a_handler_that_reads)
{
    run_each_way(read_once_more, reset_while_reading);
}

static void *disappear(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    (void)peer_post(&peer, "/", 5, true);
    peer_send(&peer);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    peer_close(&peer);
    MUST_EQ(gs_semaphore_wait(&may_answer, GS_NEVER), 0);
    MUST_EQ(atomic_load(&handler_result), -ECONNRESET);
    stop_server();
    return unused;
}

static void *shut_down(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    (void)peer_post(&peer, "/", 5, true);
    peer_send(&peer);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    MUST_EQ(gs_sys_shutdown(peer.fd, SHUT_WR), 0);
    MUST_EQ(gs_semaphore_wait(&may_answer, GS_NEVER), 0);
    MUST_EQ(atomic_load(&handler_result), -ECONNRESET);
    while (!peer.is_over)
        peer_receive(&peer);
    peer_close(&peer);
    stop_server();
    return unused;
}

static void respond_after_failing(struct gs_http_exchange *exchange, void *unused)
{
    char bytes[10];
    ssize_t n;
    (void)unused;
    gs_semaphore_post(&entered);
    while ((n = gs_http_read(exchange, bytes, sizeof bytes)) > 0)
        ;
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "x", 1), 0);
    atomic_store(&handler_result, (int)n);
    gs_semaphore_post(&may_answer);
}

TEST(end_of_the_connection_fails_a_handler_that_reads)
{
    run_each_way(read_once_more, disappear);
    run_each_way(respond_after_failing, shut_down);
}

/* ---- Responses that are broken off ---- */

static void break_off(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    if (!strcmp(exchange->path, "/nothing"))
        return;
    MUST_EQ(gs_http_start(exchange, 200, NULL, 100), 0);
    MUST_EQ(gs_http_write(exchange, "incomplete", 10), 0);
    if (!strcmp(exchange->path, "/exit"))
        gs_thread_exit(NULL);
    if (!strcmp(exchange->path, "/abort"))
        gs_http_abort(exchange);
}

static void *meet_failing_handlers(void *unused)
{
    static const char *const paths[] = {"/exit", "/abort", "/short"};
    start_server();
    peer_open(&peer, connect_client());
    for (size_t i = 0; i < 3; i++) {
        struct peer_stream *stream = peer_fetch(&peer, paths[i]);
        MUST_EQ(stream->error, NGHTTP2_INTERNAL_ERROR);
    }
    MUST_EQ(peer_fetch(&peer, "/nothing")->status, 500);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(response_that_is_not_complete_is_reset_and_the_connection_goes_on)
{
    run_each_way(break_off, meet_failing_handlers);
}
