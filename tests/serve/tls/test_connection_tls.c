/* The server's side of a connection with TLS. */
#include "tests/serve/tls/connection.h"

/* ---- Allocations of the server that fail ---- */

#define ALLOCATIONS_MAX 1000 /* of a connection of a test */

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
