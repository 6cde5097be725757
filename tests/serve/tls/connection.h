/* A connection of the server with TLS, on a pair of sockets; the client is an engine. */
#ifndef GS_TESTS_SERVE_TLS_CONNECTION_H
#define GS_TESTS_SERVE_TLS_CONNECTION_H

#include "serve/connection/tls.h"
#include "serve/operations/certificates.h"
#include "serve/operations/root.h"
#include "tests/test.h"
#include "tests/tls/certificates.h"

#include <gossamer/sys.h>

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

/* Of allocations of the server. */
static unsigned fails_in;            /* so many allocations; 0: none fails */
static _Thread_local bool is_server; /* it is running in this kernel thread */

static inline void write_page(size_t size)
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

static inline void start(size_t page)
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

static inline void stop(void)
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

static inline void send_output(void)
{
    size_t n;
    const char *bytes = gs_tls_engine_output(client, &n);
    if (!n)
        return;
    CHECK_EQ(write(peer, bytes, n), (ssize_t)n);
    gs_tls_engine_sent(client, n);
}

static inline void ask(const char *requests)
{
    CHECK_EQ(gs_tls_engine_write(client, requests, strlen(requests)), (ssize_t)strlen(requests));
    send_output();
}

/* Returns whether anything has arrived. */
static inline bool take(void)
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

static inline ssize_t receive(void)
{
    static char buffer[65536];
    return serve_connection_receive(&connection, buffer, sizeof buffer, NOW_NS);
}

static inline void load(void)
{
    struct gs_http_load *load = gs_http_conn_take_load(&connection.http);
    gs_http_load_run(load);
    serve_connection_loaded(&connection, load, NOW_NS);
}

/* Do all that the connection wants and both sockets allow. */
static inline void serve(void)
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

static inline void shake_hands(void)
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

static inline unsigned answers(void)
{
    unsigned count = 0;
    for (const char *at = received;
         (at = memmem(at, received_n - (size_t)(at - received), "HTTP/1.1 ", 9)); at += 9)
        count++;
    return count;
}

#define SMALL_TEST(name_) FIXTURE_TEST(name_, start(100), stop())

/* Prepares the certificate of all tests. */
__attribute__((constructor)) static void make_certificate(void)
{
    const struct certificate_request request = {
        .names = "DNS:localhost", .common_name = "localhost", .days = 30};
    certificate_make_as(&request, &files);
    CHECK_EQ(chmod(files.key, 0600), 0);
}

#endif
