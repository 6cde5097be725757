/* The server's side of a connection with TLS, on a pair of sockets; the client is an engine. */
#include "serve/connection/tls.h"

#include "serve/connection/blocking.h"
#include "serve/operations/certificates.h"
#include "serve/operations/root.h"
#include "tests/test.h"
#include "tests/tls/certificates.h"

#include <gossamer/sys.h>
#include <sys/ioctl.h>

#define NOW_NS (1000 * GS_SECOND)
#define SIZE 300000
#define STEPS_MAX 100000 /* of a connection, each of which sends or receives a byte at least */
#define GET "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST "POST /page HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
#define GET_LAST "GET /page HTTP/1.0\r\n\r\n"
#define GET_NONE "GET /none HTTP/1.1\r\nHost: x\r\n\r\n"

static struct certificate_files files;
static struct serve_certificates certificates;
static struct serve_tls_counts tls_counts;
static struct gs_http_counts counts;
static struct serve_shard shard;
static struct serve_root root;
static struct serve_connection connection;
static char folder[40];

static struct gs_tls_context *context;
static struct gs_tls_engine *client;
static int peer;
static char received[2 * SIZE]; /* plaintext at the client */
static size_t received_n;
static bool has_ended; /* close_notify has arrived */

/* ---- Allocations of the server that fail ---- */

#define ALLOCATIONS_MAX 1000         /* of a connection of a test */
static unsigned fails_in;            /* so many allocations; 0: none fails */
static _Thread_local bool is_server; /* it is running in this kernel thread */

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *memory, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *memory, size_t n);

static bool fails(void)
{
    return is_server && fails_in && !--fails_in;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n)
{
    return fails() ? NULL : __real_calloc(count, n);
}

void *__wrap_realloc(void *memory, size_t n)
{
    return fails() ? NULL : __real_realloc(memory, n);
}

static void write_page(size_t size)
{
    static char page[SIZE];
    for (size_t i = 0; i < size; i++)
        page[i] = (char)('a' + i % 23);
    int fd = openat(root.fd, "page", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, page, size), (ssize_t)size);
    const struct timespec old[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    CHECK_EQ(futimens(fd, old), 0);
    close(fd);
}

static void start(size_t page)
{
    const char *chain = files.chain, *key = files.key;
    const struct serve_options options = {.certificates = {&chain, 1}, .keys = {&key, 1}};
    const struct gs_tls_options of_client = {.is_client = true, .verify = GS_TLS_VERIFY_NONE};
    struct gs_http_options http;
    int pair[2], small = 4096;
    strcpy(folder, "/tmp/gossamer-tls-XXXXXX");
    CHECK(mkdtemp(folder));
    CHECK_EQ(serve_root_open(&root, folder), 0);
    write_page(page);
    certificates = (struct serve_certificates){0};
    tls_counts = (struct serve_tls_counts){0};
    CHECK_EQ(serve_certificates_open(&certificates, &options, &tls_counts), 0);
    gs_http_options_default(&http);
    counts = (struct gs_http_counts){0};
    shard = (struct serve_shard){.roots = &root, .root_count = 1, .certificates = &certificates};
    CHECK_EQ(gs_http_service_new(&http, root.fd, &counts, &shard.service), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_EQ(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    peer = pair[1];
    serve_connection_init(&connection, &(struct serve_accepted){.fd = pair[0], .is_tls = true},
                          &shard, NOW_NS);
    CHECK_EQ(gs_tls_context_new(&of_client, &context, NULL), 0);
    CHECK_EQ(gs_tls_engine_new(context, NULL, &client), 0);
    received_n = 0;
    has_ended = false;
    fails_in = 0; /* a check that failed has left these as they were */
    is_server = false;
    gs_sys_set_fault(NULL, NULL);
}

static void stop(void)
{
    serve_connection_done(&connection);
    gs_http_service_free(shard.service);
    serve_certificates_close(&certificates);
    gs_tls_engine_free(client);
    gs_tls_context_release(context);
    unlinkat(root.fd, "page", 0);
    serve_root_close(&root);
    close(peer);
    CHECK_EQ(rmdir(folder), 0);
}

/* ---- The client ---- */

static void send_output(void)
{
    size_t n;
    const char *bytes = gs_tls_engine_output(client, &n);
    if (!n)
        return;
    CHECK_EQ(write(peer, bytes, n), (ssize_t)n);
    gs_tls_engine_sent(client, n);
}

static void ask(const char *requests)
{
    CHECK_EQ(gs_tls_engine_write(client, requests, strlen(requests)), (ssize_t)strlen(requests));
    send_output();
}

/* Returns whether anything has arrived. */
static bool take(void)
{
    char bytes[65536];
    bool was_server = is_server;
    is_server = false;
    ssize_t n = read(peer, bytes, sizeof bytes), plain = 1;
    struct gs_tls_input input = {bytes, n > 0 ? (size_t)n : 0};
    while (n > 0 && plain > 0) {
        plain =
            gs_tls_engine_read(client, &input, received + received_n, sizeof received - received_n);
        received_n += plain > 0 ? (size_t)plain : 0;
    }
    has_ended |= !plain;
    send_output();
    is_server = was_server;
    return n > 0;
}

/* ---- The server ---- */

static ssize_t receive(void)
{
    static char buffer[65536];
    return serve_connection_receive(&connection, buffer, sizeof buffer, NOW_NS);
}

static void load(void)
{
    struct gs_http_load *load = gs_http_conn_take_load(&connection.http);
    gs_http_load_run(load);
    serve_connection_loaded(&connection, load, NOW_NS);
}

/* Do all that the connection wants and both sockets allow. */
static void serve(void)
{
    ssize_t n = 1;
    is_server = true;
    for (unsigned steps = 0; n > 0; steps++) {
        CHECK(steps < STEPS_MAX);
        unsigned wants = serve_connection_wants(&connection);
        n = -EAGAIN;
        if (wants & GS_HTTP_WRITE) {
            CHECK(!(wants & GS_HTTP_READ));
            n = serve_connection_send(&connection, NOW_NS);
            n = serve_is_nomem(n) ? 1 : n; /* it is tried again */
        } else if (wants & GS_HTTP_LOAD) {
            load();
            n = 1;
        } else if (wants & GS_HTTP_SHUTDOWN) {
            serve_connection_shut_down(&connection, NOW_NS);
            n = 1;
        } else if (wants & GS_HTTP_READ) {
            n = receive();
        }
        if (take())
            n = 1;
    }
    is_server = false;
}

static void shake_hands(void)
{
    struct gs_tls_input none = {"", 0};
    CHECK_EQ(gs_tls_engine_read(client, &none, received, sizeof received), -EAGAIN);
    CHECK(serve_tls_makes_handshake(&connection));
    send_output();
    serve();
    CHECK(!serve_tls_makes_handshake(&connection));
    CHECK_EQ(tls_counts.handshakes_1_3, 1);
    CHECK(gs_http_conn_is_idle(&connection.http));
    CHECK(!has_ended);
}

static unsigned answers(void)
{
    unsigned count = 0;
    for (const char *at = received;
         (at = memmem(at, received_n - (size_t)(at - received), "HTTP/1.1 ", 9)); at += 9)
        count++;
    return count;
}

#define SMALL_TEST(name_) FIXTURE_TEST(name_, start(100), stop())

/* ---- Tests ---- */

TEST(a_page_is_sent_whole_through_a_small_socket)
{
    start(SIZE);
    shake_hands();
    ask(GET);
    serve();
    CHECK(received_n > SIZE);
    CHECK_EQ(received[received_n - 1], 'a' + (SIZE - 1) % 23);
    CHECK_EQ(counts.bytes, received_n);
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_READ);
    stop();
}

TEST(pipelined_requests_are_answered_though_each_answer_fills_the_socket)
{
    start(20000);
    shake_hands();
    ask(GET GET_NONE GET GET_NONE);
    ask(GET_NONE GET);
    serve();
    CHECK_EQ(answers(), 6);
    CHECK_EQ(counts.bytes, received_n);
    stop();
}

static bool has_received(const char *text)
{
    return memmem(received, received_n, text, strlen(text));
}

/* The second range does not follow the first one. */
TEST(memory_and_a_part_of_a_file_are_encrypted_together)
{
    struct serve_output output;
    start(SIZE);
    shake_hands();
    ask("GET /page HTTP/1.1\r\nHost: x\r\nRange: bytes=0-9,30-39\r\n\r\n");
    CHECK(receive() > 0);
    load();
    serve_connection_output(&connection, &output);
    CHECK(output.is_file);
    CHECK_EQ(output.count, 3);
    CHECK_EQ(output.n, 10);
    ssize_t n = serve_output_send(&output, connection.fd);
    serve_connection_sent(&connection, &output, n, NOW_NS);
    CHECK(connection.http.output);
    serve();
    CHECK(has_received("\r\n\r\nabcdefghij\r\n"));
    CHECK(has_received("\r\n\r\nhijklmnopq\r\n"));
    CHECK(received_n > 3 && !memcmp(received + received_n - 4, "--\r\n", 4));
    stop();
}

TEST(while_ciphertext_is_unsent_nothing_is_received)
{
    start(SIZE);
    shake_hands();
    ask(GET);
    CHECK(receive() > 0);
    load();
    while (serve_connection_send(&connection, NOW_NS) > 0)
        ;
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_WRITE);
    stop();
}

SMALL_TEST(what_comes_while_the_engine_is_lent_is_kept)
{
    static struct serve_output output;
    shake_hands();
    ask(GET_NONE);
    CHECK(receive() > 0);
    serve();
    ask(GET);
    CHECK(receive() > 0);
    load();
    serve_connection_output(&connection, &output);
    ask(GET_NONE);
    CHECK(receive() > 0);
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_WRITE);
    ssize_t n = serve_output_send(&output, connection.fd);
    serve_connection_sent(&connection, &output, n, NOW_NS);
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_LOAD);
    serve();
    CHECK_EQ(answers(), 3);
}

SMALL_TEST(the_end_of_the_input_follows_what_was_kept)
{
    static struct serve_output output;
    shake_hands();
    ask(GET_NONE);
    CHECK(receive() > 0);
    load();
    serve_connection_output(&connection, &output);
    ask(GET_NONE);
    CHECK(receive() > 0);
    serve_connection_received(&connection, NULL, 0, NOW_NS);
    ssize_t n = serve_output_send(&output, connection.fd);
    serve_connection_sent(&connection, &output, n, NOW_NS);
    serve();
    CHECK_EQ(answers(), 2);
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_CLOSE);
}

SMALL_TEST(an_idle_connection_that_is_closed_tells_its_end)
{
    shake_hands();
    serve_connection_drain(&connection, NOW_NS);
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_CLOSE);
    int copy = dup(connection.fd); /* for stop */
    serve_connection_done(&connection);
    while (take())
        ;
    CHECK(has_ended);
    serve_connection_init(&connection, &(struct serve_accepted){.fd = copy}, &shard, NOW_NS);
}

static unsigned sends; /* by the server */

static long count_sends(long number, void *unused)
{
    (void)unused;
    sends += is_server && (number == SYS_sendto || number == SYS_sendmsg);
    return 0;
}

TEST(the_end_is_sent_with_the_last_answer)
{
    start(100);
    shake_hands();
    ask(GET_LAST);
    sends = 0;
    gs_sys_set_fault(count_sends, NULL);
    serve();
    gs_sys_set_fault(NULL, NULL);
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_CLOSE);
    CHECK_EQ(answers(), 1);
    CHECK_EQ(sends, 1);
    CHECK(has_ended);
    stop();
}

TEST(the_end_follows_the_last_part_of_a_file)
{
    start(SIZE);
    shake_hands();
    ask(GET_LAST);
    CHECK(receive() > 0);
    load();
    while (serve_connection_wants(&connection) & GS_HTTP_WRITE) {
        CHECK(!has_ended);
        (void)serve_connection_send(&connection, NOW_NS);
        while (take())
            ;
    }
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_SHUTDOWN);
    CHECK(received_n > SIZE);
    CHECK(has_ended);
    stop();
}

TEST(an_answer_that_is_broken_off_does_not_look_complete)
{
    start(SIZE);
    shake_hands();
    ask(GET);
    CHECK(receive() > 0);
    load();
    CHECK(serve_connection_send(&connection, NOW_NS) > 0);
    write_page(SIZE - 1);
    serve();
    CHECK_EQ(counts.broken_off, 1);
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_CLOSE);
    int copy = dup(connection.fd);
    serve_connection_done(&connection);
    while (take())
        ;
    CHECK(!has_ended);
    CHECK(received_n < SIZE);
    serve_connection_init(&connection, &(struct serve_accepted){.fd = copy}, &shard, NOW_NS);
    stop();
}

/* What the peer sends is discarded until it closes. */
static void linger(void)
{
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_SHUTDOWN);
    serve_connection_shut_down(&connection, NOW_NS);
    CHECK(!serve_tls_makes_handshake(&connection));
    CHECK_EQ(write(peer, GET, strlen(GET)), (ssize_t)strlen(GET));
    CHECK_EQ(receive(), (ssize_t)strlen(GET));
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_READ);
    CHECK_EQ(shutdown(peer, SHUT_WR), 0);
    CHECK_EQ(receive(), 0);
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_CLOSE);
}

SMALL_TEST(a_failed_handshake_is_counted_and_answered_with_an_alert)
{
    char byte;
    CHECK_EQ(write(peer, "\x16\x03\x01\x00\x05hello", 10), 10);
    CHECK(receive() > 0);
    CHECK_EQ(tls_counts.failed[GS_TLS_FAILED_PROTOCOL], 1);
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_WRITE);
    CHECK(serve_connection_send(&connection, NOW_NS) > 0);
    CHECK_EQ(read(peer, &byte, 1), 1);
    CHECK_EQ(byte, 0x15);
    linger();
}

SMALL_TEST(a_request_without_tls_is_answered_before_the_rest_of_it_is_discarded)
{
    char answer[100];
    CHECK_EQ(write(peer, GET, strlen(GET)), (ssize_t)strlen(GET));
    CHECK(receive() > 0);
    linger();
    CHECK(read(peer, answer, sizeof answer) > 12);
    CHECK(!memcmp(answer, "HTTP/1.1 400", 12));
}

/* The alert follows what was encrypted, and takes the place of the rest. */
TEST(a_connection_that_fails_during_an_answer_tells_why)
{
    static const char garbage[] = "\x17\x03\x03\x00\x20there is no such record: garbage..";
    struct gs_tls_info info;
    start(SIZE);
    shake_hands();
    ask(GET POST);
    CHECK(receive() > 0);
    load();
    while (serve_connection_send(&connection, NOW_NS) > 0)
        ;
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_WRITE | GS_HTTP_READ);
    CHECK_EQ(write(peer, garbage, 37), 37);
    CHECK_EQ(receive(), 37);
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_WRITE);
    serve();
    CHECK_EQ(serve_connection_wants(&connection), GS_HTTP_READ);
    CHECK(received_n && received_n < SIZE && !has_ended);
    gs_tls_engine_info(client, &info);
    CHECK_EQ(info.failure, GS_TLS_FAILED_ALERT);
    stop();
}

/* ---- Turns of handshakes ---- */

/* What is in the future was not long ago; 1 was. */
SMALL_TEST(after_a_step_of_a_handshake_others_must_wait_until_all_else_has_taken_as_long)
{
    const struct serve_connection other = connection;
    CHECK(!serve_tls_must_postpone(&other, GS_NEVER));
    shake_hands();
    CHECK(serve_tls_must_postpone(&other, GS_NEVER));
    CHECK(!serve_tls_must_postpone(&connection, GS_NEVER));
    CHECK(!serve_tls_must_postpone(&other, GS_NEVER - 1));
    stop();
    start(100);
    CHECK(!serve_tls_must_postpone(&other, 1));
    shake_hands();
    CHECK(!serve_tls_must_postpone(&other, 1));
}

static void *run_kernel(void *data)
{
    serve_blocking_run(data);
    return NULL;
}

static void await_received(int fd)
{
    int n = 1;
    while (n)
        CHECK_EQ(ioctl(fd, FIONREAD, &n), 0);
}

/* By a thread of its own. */
TEST(a_handshake_waits_for_its_turn_and_a_request_does_not)
{
    struct gs_tls_input none = {"", 0};
    struct serve_admission admission = {.drain_until_ns = GS_NEVER, .drain_fd = -1};
    struct serve_kernel kernel;
    pthread_t thread;
    char byte;
    start(100);
    struct serve_accepted accepted = {.fd = dup(connection.fd), .is_tls = true};
    CHECK_EQ(serve_table_new(1, false, &admission.table), 0);
    CHECK_EQ(serve_turns_init(&admission.handshakes, 1), 0);
    serve_kernel_init(&kernel, &admission, &shard, &accepted);
    CHECK_EQ(pthread_create(&thread, NULL, run_kernel, &kernel.blocking), 0);

    pthread_mutex_t *turn = serve_turns_take(&admission.handshakes);
    CHECK_EQ(gs_tls_engine_read(client, &none, received, sizeof received), -EAGAIN);
    send_output();
    await_received(accepted.fd);
    CHECK(read(peer, &byte, 1) < 0);
    pthread_mutex_unlock(turn);
    while (gs_tls_engine_write(client, GET_NONE, strlen(GET_NONE)) == -EAGAIN)
        (void)take();
    send_output();
    while (!answers())
        (void)take();

    turn = serve_turns_take(&admission.handshakes);
    ask(GET_NONE);
    while (answers() < 2)
        (void)take();
    pthread_mutex_unlock(turn);
    CHECK_EQ(shutdown(peer, SHUT_WR), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    serve_kernel_done(&kernel);
    serve_table_free(admission.table);
    stop();
}

/* The connection is closed, or goes on as if nothing had happened. */
TEST(each_allocation_may_fail)
{
    unsigned closed = 0, first = 0;
    struct gs_tls_input none = {"", 0};
    do {
        CHECK(++first < ALLOCATIONS_MAX);
        start(SIZE);
        fails_in = first;
        CHECK_EQ(gs_tls_engine_read(client, &none, received, sizeof received), -EAGAIN);
        send_output();
        serve();
        bool is_established = gs_tls_engine_write(client, GET GET_NONE, strlen(GET GET_NONE)) > 0;
        send_output();
        serve();
        bool is_closed = serve_connection_wants(&connection) & GS_HTTP_CLOSE;
        CHECK(is_closed || (is_established && answers() == 2));
        closed += is_closed;
        is_server = true;
        stop();
        is_server = false;
    } while (!fails_in);
    CHECK(closed > 3);
}

/* Prepares the certificate of all tests. */
__attribute__((constructor)) static void make_certificate(void)
{
    const struct certificate_request request = {
        .names = "DNS:localhost", .common_name = "localhost", .days = 30};
    certificate_make_as(&request, &files);
    CHECK_EQ(chmod(files.key, 0600), 0);
}
