/* HTTP/2: deadlines, limits, and the end of a connection and of the server. */
#include "http_server/connection.h"
#include "tests/http_server/http2/peer.h"
#include "tests/thread/schedule/forking.h"

#include <stdatomic.h>

static struct peer peer;

static void greet(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "hello", 5), 0);
}

static void run_until_over(void)
{
    while (!peer.is_over) {
        peer_send(&peer);
        if (!peer.is_over)
            peer_receive(&peer);
    }
}

/* ---- The end of the server ---- */

static struct gs_semaphore entered, may_answer;
static atomic_int handler_result;

static void answer_later(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    gs_semaphore_post(&entered);
    atomic_store(&handler_result, gs_semaphore_wait(&may_answer, GS_NEVER));
    (void)!gs_http_respond(exchange, 200, NULL, "done", 4);
}

static void *drain(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t id = peer_get(&peer, "/");
    peer_send(&peer);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    gs_thread_cancel(server_thread);
    PEER_UNTIL(&peer, peer.goaways == 1);
    MUST_EQ(peer.last_stream, INT32_MAX);
    PEER_UNTIL(&peer, peer.goaways == 2); /* after our answer to its PING */
    MUST_EQ(peer.last_stream, id);
    MUST_EQ(peer.goaway_error, NGHTTP2_NO_ERROR);
    gs_semaphore_post(&may_answer);
    run_until_over();
    MUST_EQ(peer.error, 0);
    MUST_EQ(strcmp(peer_stream(&peer, id)->body, "done"), 0);
    MUST_EQ(peer_stream(&peer, id)->error, NGHTTP2_NO_ERROR);
    MUST_EQ(atomic_load(&handler_result), 0);
    peer_close(&peer);
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
    return unused;
}

TEST(draining_server_sends_goaway_and_waits_for_the_streams)
{
    serve_with(&(struct gs_http_server){.handler = answer_later, .drain_timeout_ns = PATIENCE_NS},
               drain);
}

/* It does not answer the PING. */
static void *drain_silent_client(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    MUST_EQ(peer_fetch(&peer, "/")->status, 200);
    stop_server();
    while (!peer.is_over)
        peer_receive(&peer);
    MUST_EQ(peer.goaways, 2);
    peer_close(&peer);
    return unused;
}

TEST(draining_server_does_not_wait_for_a_silent_client)
{
    serve_with(&(struct gs_http_server){.handler = greet, .drain_timeout_ns = PATIENCE_NS},
               drain_silent_client);
}

/* ---- Requests that meet the drain ---- */

static atomic_uint served;

static void count(struct gs_http_exchange *exchange, void *unused)
{
    atomic_fetch_add(&served, 1);
    greet(exchange, unused);
}

/* The answer to the server's PING, and a request that comes too late, in one segment. */
static void send_acknowledgement_and_request(void)
{
    static const uint8_t late[] = {0, 0, 6, 1, 5, 0, 0, 0, 3, 0x82, 0x86, 0x84, 0x41, 1, 'h'};
    uint8_t bytes[200];
    const uint8_t *part;
    size_t at = 0;
    ssize_t n;
    while ((n = nghttp2_session_mem_send(peer.session, &part)) > 0) {
        MUST(at + (size_t)n + sizeof late <= sizeof bytes);
        memcpy(bytes + at, part, (size_t)n);
        at += (size_t)n;
    }
    memcpy(bytes + at, late, sizeof late);
    MUST_EQ(gs_send_all(peer.fd, bytes, at + sizeof late, GS_NEVER), at + sizeof late);
}

/* To the end, without libnghttp2, which does not know the request. Returns the last stream that the
 * last GOAWAY names. */
static uint32_t receive_last_stream(void)
{
    uint8_t bytes[1000];
    uint32_t last_stream = 0, frame_n;
    size_t n = 0;
    ssize_t received;
    while ((received = gs_recv(peer.fd, bytes + n, sizeof bytes - n, 0, after(PATIENCE_NS))) > 0)
        n += (size_t)received;
    MUST_EQ(received, 0);
    for (size_t at = 0; at + 9 <= n; at += 9 + frame_n) {
        frame_n = (uint32_t)(bytes[at] << 16 | bytes[at + 1] << 8 | bytes[at + 2]);
        if (bytes[at + 3] == NGHTTP2_GOAWAY)
            last_stream = bytes[at + 12];
    }
    return last_stream;
}

static void *ask_too_late(void *unused)
{
    atomic_store(&served, 0);
    start_server();
    peer_open(&peer, connect_client());
    MUST_EQ(peer_fetch(&peer, "/")->status, 200);
    gs_thread_cancel(server_thread);
    peer_send(&peer);
    while (!peer.pings)
        peer_receive(&peer);
    MUST_EQ(peer.last_stream, INT32_MAX);
    send_acknowledgement_and_request();
    MUST_EQ(receive_last_stream(), 1);
    MUST_EQ(atomic_load(&served), 1); /* the client may repeat the other one elsewhere */
    peer_close(&peer);
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
    return unused;
}

TEST(request_that_a_goaway_excludes_is_not_served)
{
    serve_with(&(struct gs_http_server){.handler = count, .drain_timeout_ns = PATIENCE_NS},
               ask_too_late);
}

static atomic_bool must_drain;

int __real_gs_http_worker_keep(struct gs_http_connection *connection, enum gs_http_wait waits_for);
int __wrap_gs_http_worker_keep(struct gs_http_connection *connection, enum gs_http_wait waits_for);
int __wrap_gs_http_worker_keep(struct gs_http_connection *connection, enum gs_http_wait waits_for)
{
    if (waits_for == GS_HTTP_WAITS_NEXT && atomic_exchange(&must_drain, false))
        atomic_store(&connection->sessions->phase, GS_HTTP_DRAINING);
    return __real_gs_http_worker_keep(connection, waits_for);
}

static void *become_idle_while_it_drains(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    atomic_store(&must_drain, true);
    MUST_EQ(peer_fetch(&peer, "/")->status, 200);
    run_until_over();
    MUST(!atomic_load(&must_drain));
    MUST_EQ(peer.goaways, 1);
    MUST_EQ(peer.error, 0);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(connection_that_becomes_idle_as_the_server_begins_to_drain_is_told)
{
    serve_with(&(struct gs_http_server){.handler = greet, .drain_timeout_ns = PATIENCE_NS},
               become_idle_while_it_drains);
}

static void *drain_too_long(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    (void)peer_get(&peer, "/");
    (void)peer_get(&peer, "/");
    peer_send(&peer);
    for (int i = 0; i < 2; i++)
        MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    stop_server();
    MUST_EQ(atomic_load(&handler_result), -ECANCELED);
    peer_close(&peer);
    return unused;
}

TEST(handlers_are_canceled_when_the_time_for_draining_is_over)
{
    const struct gs_http_server options = {.handler = answer_later,
                                           .drain_timeout_ns = 20 * GS_MILLISECOND};
    serve_with(&options, drain_too_long);
}

static void read_forever(struct gs_http_exchange *exchange, void *unused)
{
    char byte;
    (void)unused;
    gs_semaphore_post(&entered);
    atomic_store(&handler_result, (int)gs_http_read(exchange, &byte, 1));
}

static void *cancel_a_call(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    (void)peer_post(&peer, "/", 0, true);
    peer_send(&peer);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    stop_server();
    int result = atomic_load(&handler_result);
    MUST(result == -ECANCELED || result == -ECONNRESET);
    peer_close(&peer);
    return unused;
}

TEST(handler_that_waits_for_its_stream_is_canceled)
{
    serve_with(
        &(struct gs_http_server){.handler = read_forever, .drain_timeout_ns = 20 * GS_MILLISECOND},
        cancel_a_call);
}

static _Atomic(struct gs_thread *) handler_thread;

static void read_on(struct gs_http_exchange *exchange, void *unused)
{
    char bytes[10];
    (void)unused;
    atomic_store(&handler_thread, gs_thread_self());
    gs_semaphore_post(&entered);
    MUST_EQ(gs_http_read(exchange, bytes, sizeof bytes), -ECANCELED);
    gs_semaphore_post(&entered);
    gs_thread_set_cancelable(false);
    MUST_EQ(gs_http_read_all(exchange, bytes, sizeof bytes), 5);
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "done", 4), 0);
}

static void *cancel_a_handler(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t id = peer_post(&peer, "/", 5, true);
    peer_stream(&peer, id)->upload_n = 0;
    peer_send(&peer);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    gs_thread_cancel(atomic_load(&handler_thread));
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    peer_stream(&peer, id)->upload_n = 5;
    peer_stream(&peer, id)->is_held = false;
    MUST_EQ(nghttp2_session_resume_data(peer.session, id), 0);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    MUST_EQ(strcmp(peer_stream(&peer, id)->body, "done"), 0);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(canceled_handler_may_read_on)
{
    serve_with(&(struct gs_http_server){.handler = read_on}, cancel_a_handler);
    serve_with(&(struct gs_http_server){.handler = read_on, .migrates = true}, cancel_a_handler);
}

/* ---- Deadlines ---- */

static void *be_idle(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    MUST_EQ(peer_fetch(&peer, "/")->status, 200);
    run_until_over();
    MUST_EQ(peer.error, 0);
    MUST_EQ(peer.goaways, 1);
    MUST_EQ(peer.goaway_error, NGHTTP2_NO_ERROR);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(idle_connection_is_closed)
{
    serve_with(&(struct gs_http_server){.handler = greet, .idle_timeout_ns = 30 * GS_MILLISECOND},
               be_idle);
}

/* A head without END_HEADERS. */
static void *send_half_a_head(void *unused)
{
    static const unsigned char frame[] = {0, 0, 1, 1, 1, 0, 0, 0, 1, 0x82};
    start_server();
    peer_open(&peer, connect_client());
    peer_send(&peer);
    MUST_EQ(gs_send_all(peer.fd, frame, sizeof frame, GS_NEVER), sizeof frame);
    while (!peer.is_over)
        peer_receive(&peer);
    MUST_EQ(peer.goaways, 1);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(incomplete_head_is_timed_out)
{
    serve_with(
        &(struct gs_http_server){.handler = greet, .header_timeout_ns = 500 * GS_MILLISECOND},
        send_half_a_head);
}

static void read_all(struct gs_http_exchange *exchange, void *unused)
{
    char bytes[10];
    (void)unused;
    MUST_EQ(gs_http_read_all(exchange, bytes, sizeof bytes), -ETIMEDOUT);
}

static void *send_half_a_body(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t id = peer_post(&peer, "/", 5, true);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    MUST_EQ(peer_stream(&peer, id)->status, 408);
    MUST(!peer.is_over);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(slow_body_is_timed_out)
{
    serve_with(
        &(struct gs_http_server){.handler = read_all, .body_timeout_ns = 30 * GS_MILLISECOND},
        send_half_a_body);
}

static void write_forever(struct gs_http_exchange *exchange, void *unused)
{
    static char page[100000];
    (void)unused;
    int err = gs_http_start(exchange, 200, NULL, GS_HTTP_UNKNOWN);
    while (!err)
        err = gs_http_write(exchange, page, sizeof page);
    atomic_store(&handler_result, err);
    gs_semaphore_post(&entered);
}

/* Its windows are wide, and it receives nothing. */
static void *receive_nothing(void *unused)
{
    static const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX};
    start_server();
    peer_open_with(&peer, connect_client(), &window, 1, true);
    MUST_EQ(nghttp2_submit_window_update(peer.session, 0, 0, 1 << 30), 0);
    (void)peer_get(&peer, "/");
    peer_send(&peer);
    MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    int result = atomic_load(&handler_result);
    MUST(result == -ETIMEDOUT || result == -EPIPE);
    stop_server();
    peer_close(&peer);
    return unused;
}

TEST(client_that_receives_nothing_is_timed_out)
{
    serve_with(
        &(struct gs_http_server){.handler = write_forever, .write_timeout_ns = 50 * GS_MILLISECOND},
        receive_nothing);
}

static void *give_way(void *unused)
{
    static struct heard heard;
    start_server();
    peer_open(&peer, connect_client());
    MUST_EQ(peer_fetch(&peer, "/")->status, 200);
    int fd = connect_client();
    say(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    heard.n = 0;
    MUST_EQ(hear(fd, &heard, "hello"), 0);
    run_until_over();
    MUST_EQ(peer.goaways, 1);
    gs_close(fd);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(idle_connection_gives_way_to_a_client_that_waits)
{
    serve_with(&(struct gs_http_server){.handler = greet, .max_connections = 1}, give_way);
}

/* ---- A child of fork ---- */

static void fork_and_greet(struct gs_http_exchange *exchange, void *unused)
{
    pid_t pid = exchange->path[1] ? gs_fork() : -1;
    int status = -1;
    if (!pid) { /* the connection is the parent's */
        char byte;
        MUST_EQ(gs_http_read(exchange, &byte, 1), -ECONNRESET);
        MUST_EQ(gs_http_respond(exchange, 200, NULL, "child", 5), -ECONNRESET);
        return;
    }
    uint64_t end_ns = after(PATIENCE_NS);
    while (pid > 0 && !gs_sys_wait4(pid, &status, WNOHANG) && gs_clock_now() < end_ns)
        gs_thread_sleep(after(GS_MILLISECOND));
    MUST(pid < 0 || !status);
    greet(exchange, unused);
}

static void *serve_beside_a_child(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    int32_t id = peer_post(&peer, "/fork", 0, true);
    MUST_EQ(peer_fetch(&peer, "/")->body_n, 5);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    MUST_EQ(strcmp(peer_stream(&peer, id)->body, "hello"), 0);
    MUST_EQ(peer_fetch(&peer, "/")->body_n, 5);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(child_of_fork_leaves_the_connection_to_its_parent)
{
    if (GS_TSAN || IS_EMULATED || IS_GCC_ASAN)
        return; /* for the reasons in forking.h */
    pid_t pid = getpid();
    server = (struct gs_http_server){.handler = fork_and_greet};
    run_unwatched(1, serve_beside_a_child);
    if (getpid() != pid)
        _exit(0); /* the run has ended in the child */
}

/* ---- Floods ---- */

static void flood_until_over(void (*disturb)(unsigned i))
{
    for (unsigned i = 0; !peer.is_over && i < 20000; i++) {
        disturb(i);
        if (i % 50 == 49)
            peer_send(&peer);
    }
    while (!peer.is_over)
        peer_receive(&peer);
}

static void ping(unsigned i)
{
    (void)i;
    MUST_EQ(nghttp2_submit_ping(peer.session, 0, NULL), 0);
}

static void reset_at_once(unsigned i)
{
    nghttp2_nv fields[] = {peer_field(":method", "GET"), peer_field(":path", "/"),
                           peer_field(":scheme", "http"), peer_field(":authority", "h")};
    (void)i;
    int32_t id = nghttp2_submit_request(peer.session, NULL, fields, 4, NULL, NULL);
    MUST(id > 0);
    peer_send(&peer);
    (void)nghttp2_submit_rst_stream(peer.session, 0, id, NGHTTP2_CANCEL);
}

static void *flood(void *disturb)
{
    start_server();
    peer_open(&peer, connect_client());
    flood_until_over((void (*)(unsigned))disturb);
    peer_close(&peer);
    peer_open(&peer, connect_client());
    MUST_EQ(peer_fetch(&peer, "/")->status, 200); /* others are served */
    peer_close(&peer);
    stop_server();
    return NULL;
}

static void *flood_with_pings(void *unused)
{
    (void)unused;
    return flood((void *)ping);
}

static void answer_or_not(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    (void)!gs_http_respond(exchange, 200, NULL, "hello", 5);
}

static void *flood_with_resets(void *unused)
{
    (void)unused;
    return flood((void *)reset_at_once);
}

TEST(floods_end_the_connection)
{
    serve_with(&(struct gs_http_server){.handler = answer_or_not}, flood_with_pings);
    serve_with(&(struct gs_http_server){.handler = answer_or_not, .migrates = true},
               flood_with_resets);
}

/* It ends for the client, although nobody knows when the handlers will. */
static void *flood_while_handlers_wait(void *unused)
{
    start_server();
    peer_open(&peer, connect_client());
    for (int i = 0; i < 2; i++)
        (void)peer_get(&peer, "/");
    peer_send(&peer);
    for (int i = 0; i < 2; i++)
        MUST_EQ(gs_semaphore_wait(&entered, GS_NEVER), 0);
    flood_until_over(ping);
    MUST_EQ(peer.goaways, 1);
    MUST_EQ(peer.goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
    for (int i = 0; i < 2; i++)
        gs_semaphore_post(&may_answer);
    peer_close(&peer);
    stop_server();
    return unused;
}

TEST(flood_ends_a_connection_whose_handlers_wait)
{
    serve_with(&(struct gs_http_server){.handler = answer_later}, flood_while_handlers_wait);
}
