#include "serve/connection/connection.h"

#include "http/load.h"

#include "serve/operations/root.h"
#include "tests/refused_call.h"
#include "tests/test.h"

#include <gossamer/sys.h>

#define NOW_NS (1000 * GS_SECOND)
#define GET "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"

static char folder[40];
static struct serve_shard shard;
static struct gs_http_counts counts;
static struct serve_connection connection;
static struct serve_root root;
static int peer;
static char buffer[65536];

static uint64_t wall_ns;

uint64_t __wrap_gs_clock_wall(void);
uint64_t __wrap_gs_clock_wall(void)
{
    return wall_ns;
}

/* Set the clock to so long after the last change of the page. */
static void pass(uint64_t ns)
{
    struct stat status;
    CHECK_EQ(fstatat(root.fd, "page", &status, 0), 0);
    wall_ns = (uint64_t)status.st_ctim.tv_sec * GS_SECOND + (uint64_t)status.st_ctim.tv_nsec + ns;
}

static void write_page(off_t size)
{
    int fd = openat(root.fd, "page", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, size), 0);
    close(fd);
}

static void start(off_t size)
{
    struct gs_http_options options;
    int pair[2];
    strcpy(folder, "/tmp/gossamer-connection-XXXXXX");
    CHECK(mkdtemp(folder));
    CHECK_EQ(serve_root_open(&root, folder), 0);
    shard.roots = &root;
    shard.root_count = 1;
    write_page(size);
    pass(10 * GS_SECOND);
    gs_http_options_default(&options);
    options.log = serve_connection_log;
    options.log_data = &shard.log;
    counts = (struct gs_http_counts){0};
    shard.log.used = 0;
    CHECK_EQ(gs_http_service_new(&options, root.fd, &counts, &shard.service), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    peer = pair[1];
    serve_connection_init(&connection, &(struct serve_accepted){.fd = pair[0]}, &shard, NOW_NS);
}

static void stop(void)
{
    gs_sys_set_fault(NULL, NULL);
    serve_connection_done(&connection);
    gs_http_service_free(shard.service);
    unlinkat(root.fd, "page", 0);
    serve_root_close(&root);
    if (peer >= 0)
        close(peer);
    CHECK_EQ(rmdir(folder), 0);
}

static ssize_t receive(void)
{
    return serve_connection_receive(&connection, buffer, sizeof buffer, NOW_NS);
}

static void ask(void)
{
    ssize_t n = (ssize_t)strlen(GET);
    CHECK_EQ(write(peer, GET, (size_t)n), n);
    CHECK_EQ(receive(), n);
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_LOAD);
    struct gs_http_load *load = gs_http_conn_take_load(&connection.http);
    load->wall_ns = wall_ns;
    gs_http_load_run(load);
    gs_http_conn_loaded(&connection.http, load, NOW_NS);
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_WRITE);
}

/* Send and receive until the connection wants another operation. Returns the number of bytes
 * received. */
static size_t drain(void)
{
    size_t sum = 0;
    while (gs_http_conn_wants(&connection.http) == GS_HTTP_WRITE) {
        ssize_t n = serve_connection_send(&connection, NOW_NS);
        CHECK(n >= 0 || n == -EAGAIN);
        while ((n = read(peer, buffer, sizeof buffer)) > 0)
            sum += (size_t)n;
    }
    return sum;
}

#define LARGE_TEST(name_) FIXTURE_TEST(name_, start(3 << 20), stop())

#define SMALL_TEST(name_) FIXTURE_TEST(name_, start(5), stop())

SMALL_TEST(a_small_page_is_sent_at_once)
{
    ask();
    CHECK(serve_connection_send(&connection, NOW_NS) > 5);
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_READ);
    CHECK_EQ(receive(), -EAGAIN);
    CHECK_EQ(counts.requests, 1);
}

LARGE_TEST(a_large_page_is_sent_from_its_file)
{
    ask();
    CHECK((size_t)(3 << 20) + 100 < drain());
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_READ);
}

LARGE_TEST(a_page_that_became_shorter_closes_the_connection)
{
    ask();
    write_page(1 << 20);
    CHECK(drain() < (size_t)(3 << 20));
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_CLOSE);
}

LARGE_TEST(a_page_that_was_rewritten_is_broken_off)
{
    ask();
    while (read(peer, buffer, sizeof buffer) < 0)
        CHECK(serve_connection_send(&connection, NOW_NS) > 0);
    write_page(3 << 20);
    CHECK(drain() < (size_t)(3 << 20));
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_CLOSE);
    CHECK_EQ(counts.broken_off, 1);
}

/* Start to send a page that was changed just now: its write may not have ended. */
static void start_changed(off_t size)
{
    start(size);
    pass(9 * GS_MILLISECOND);
    ask();
    CHECK(serve_connection_send(&connection, NOW_NS) > 0); /* the head */
    CHECK_EQ(serve_connection_send(&connection, NOW_NS), -ENOBUFS);
    pass(10 * GS_MILLISECOND);
    CHECK(serve_connection_send(&connection, NOW_NS) > 0);
}

TEST(a_page_that_was_rewritten_with_its_old_time_is_broken_off)
{
    struct stat status;
    start_changed(3 << 20);
    CHECK_EQ(fstatat(root.fd, "page", &status, 0), 0);
    write_page(3 << 20);
    const struct timespec times[] = {status.st_atim, status.st_mtim};
    CHECK_EQ(utimensat(root.fd, "page", times, 0), 0);
    CHECK(drain() < (size_t)(3 << 20));
    CHECK_EQ(counts.broken_off, 1);
    stop();
}

TEST(a_page_that_was_replaced_is_sent_to_its_end)
{
    start_changed(3 << 20);
    CHECK_EQ(unlinkat(root.fd, "page", 0), 0);
    write_page(1 << 20);
    CHECK((size_t)(3 << 20) < drain());
    CHECK_EQ(counts.broken_off, 0);
    stop();
}

static long change_when_read(long number, void *data)
{
    if (number == SYS_pread64) {
        gs_sys_set_fault(NULL, NULL);
        write_page(*(const off_t *)data);
    }
    return 0;
}

/* sendfile would leave the choice of the bytes to the moment when they are delivered. */
TEST(a_page_that_is_rewritten_while_its_last_part_is_read_is_broken_off)
{
    static const off_t size = 70000;
    start_changed(size);
    gs_sys_set_fault(change_when_read, (void *)&size);
    CHECK(drain() < (size_t)size);
    CHECK_EQ(counts.broken_off, 1);
    stop();
}

SMALL_TEST(end_of_file_from_the_peer_is_reported)
{
    shutdown(peer, SHUT_WR);
    CHECK_EQ(receive(), 0);
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_CLOSE);
}

SMALL_TEST(sending_to_a_peer_that_is_gone_raises_no_signal_and_wants_to_close)
{
    ask();
    close(peer);
    peer = -1;
    CHECK_EQ(serve_connection_send(&connection, NOW_NS), 0);
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_CLOSE);
}

static struct {
    long number;
    long result;
    unsigned times;
} fault;

static long inject(long number, void *data)
{
    (void)data;
    if (number != fault.number || !fault.times)
        return 0;
    fault.times--;
    return fault.result;
}

static void fail(long number, long result, unsigned times)
{
    fault.number = number;
    fault.result = result;
    fault.times = times;
    gs_sys_set_fault(inject, NULL);
}

LARGE_TEST(interrupted_calls_are_taken_up_again)
{
    CHECK_EQ(write(peer, GET, strlen(GET)), (ssize_t)strlen(GET));
    fail(SYS_recvfrom, -EINTR, 3);
    CHECK_EQ(receive(), (ssize_t)strlen(GET));
    CHECK_EQ(fault.times, 0);
    struct gs_http_load *load = gs_http_conn_take_load(&connection.http);
    gs_http_load_run(load);
    gs_http_conn_loaded(&connection.http, load, NOW_NS);
    fail(SYS_sendto, -EINTR, 3);
    CHECK(serve_connection_send(&connection, NOW_NS) > 0);
    CHECK_EQ(fault.times, 0);
    fail(SYS_sendfile, -EINTR, 3);
    CHECK(serve_connection_send(&connection, NOW_NS) > 0);
    CHECK_EQ(fault.times, 0);
    CHECK((size_t)(3 << 20) + 100 < drain());
}

SMALL_TEST(an_answer_in_one_piece_is_sent_when_what_failed_has_passed)
{
    ask();
    fail(SYS_sendto, -EAGAIN, 1);
    CHECK_EQ(serve_connection_send(&connection, NOW_NS), -EAGAIN);
    fail(SYS_sendto, -ENOBUFS, 1);
    CHECK_EQ(serve_connection_send(&connection, NOW_NS), -ENOBUFS);
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_WRITE);
    fail(SYS_sendto, -EINTR, 3);
    ssize_t n = serve_connection_send(&connection, NOW_NS);
    CHECK_EQ(fault.times, 0);
    CHECK_EQ(read(peer, buffer, sizeof buffer), n);
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_READ);
}

SMALL_TEST(a_broken_connection_wants_to_be_closed)
{
    fail(SYS_recvfrom, -ECONNRESET, 1);
    CHECK_EQ(receive(), 0);
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_CLOSE);
}

LARGE_TEST(a_full_socket_is_not_an_error)
{
    ask();
    ssize_t n;
    do
        n = serve_connection_send(&connection, NOW_NS);
    while (n > 0);
    CHECK_EQ(n, -EAGAIN);
    CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_WRITE);
    CHECK((size_t)(3 << 20) + 100 < drain());
}

LARGE_TEST(exhaustion_of_memory_for_a_send_is_not_the_end)
{
    static const int send_nomem[] = {-ENOBUFS, -ENOMEM};
    ask();
    for (unsigned i = 0; i < 2; i++) {
        fail(SYS_sendto, send_nomem[i], 1);
        CHECK_EQ(serve_connection_send(&connection, NOW_NS), send_nomem[i]);
        CHECK(serve_is_nomem(send_nomem[i]));
        CHECK_EQ(gs_http_conn_wants(&connection.http), GS_HTTP_WRITE);
    }
    CHECK(serve_connection_send(&connection, NOW_NS) > 0);
    fail(SYS_sendfile, -ENOMEM, 1);
    CHECK_EQ(serve_connection_send(&connection, NOW_NS), -ENOMEM);
    CHECK((size_t)(3 << 20) + 100 < drain());
}

static unsigned settings;

static long count_settings(long number, void *data)
{
    (void)data;
    settings += number == SYS_setsockopt;
    return 0;
}

static ssize_t send_counted(void)
{
    settings = 0;
    gs_sys_set_fault(count_settings, NULL);
    return serve_connection_send(&connection, NOW_NS);
}

LARGE_TEST(a_file_is_sent_in_small_pieces_at_first_and_larger_ones_later)
{
    ask();
    CHECK(send_counted() < 4096); /* the header fields */
    CHECK_EQ(settings, 0);
    ssize_t first = send_counted();
    CHECK(first > 4096 && first < 65536);
    CHECK_EQ(settings, 2);
    CHECK(send_counted() > first);
    CHECK_EQ(settings, 0);
}

LARGE_TEST(a_peer_that_was_full_gets_more_once_it_makes_room)
{
    ask();
    CHECK(send_counted() > 0);
    fail(SYS_sendfile, -EAGAIN, 1);
    CHECK_EQ(serve_connection_send(&connection, NOW_NS), -EAGAIN);
    CHECK(send_counted() > 65536);
    CHECK_EQ(settings, 1);
}

SMALL_TEST(the_log_names_the_peer)
{
    connection.family = AF_INET6;
    memset(connection.host, 0, sizeof connection.host);
    connection.host[15] = 1;
    ask();
    drain();
    CHECK(strncmp(shard.log.buffer, "::1 - - [", 9) == 0);
    shard.log.used = 0;
    connection.family = AF_INET;
    memcpy(connection.host, (unsigned char[]){10, 1, 2, 3}, 4);
    CHECK_EQ(write(peer, GET, strlen(GET)), (ssize_t)strlen(GET));
    CHECK(receive() > 0);
    drain();
    CHECK(strncmp(shard.log.buffer, "10.1.2.3 - - [", 14) == 0);
}

/* A client sees all of the file, or that it is broken off. A refusal is remembered, so this is the
 * last test. */
TEST(a_refused_sendfile_is_replaced_and_a_failed_one_counted)
{
    static const struct {
        struct refused_call refused;
        bool is_sent;
    } cases[] = {{{SYS_sendfile, -EIO}, false},       {{SYS_sendfile, -EINVAL}, true},
                 {{SYS_sendfile, -EPERM}, true},      {{SYS_sendfile, -ENOSYS}, true},
                 {{SYS_sendfile, -EOPNOTSUPP}, true}, {{SYS_fstat, -EIO}, false},
                 {{SYS_pread64, -EIO}, false},        {{SYS_sendto, -EPIPE}, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct refused_call refused = cases[i].refused;
        start(300000);
        ask();
        CHECK(serve_connection_send(&connection, NOW_NS) > 0); /* the head */
        gs_sys_set_fault(refuse_call, &refused);
        size_t n = drain();
        gs_sys_set_fault(NULL, NULL);
        CHECK_EQ(n > 300000, cases[i].is_sent);
        CHECK_EQ(gs_http_conn_wants(&connection.http),
                 cases[i].is_sent ? GS_HTTP_READ : GS_HTTP_CLOSE);
        CHECK_EQ(counts.broken_off, !cases[i].is_sent && refused.error != -EPIPE);
        stop();
    }
}
