#include "serve/connection/connection.h"
#include "serve/operations/server.h"

#include "tests/test.h"

#include <gossamer/sys.h>

#define NOW_NS (1000 * GS_SECOND)
#define GET "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"
#define THREADS 4
#define REQUESTS 300
#define PAGE "<p>page\n"

static char folder[40], log_path[64];
static struct serve_options options;
static struct serve_counts counts;
static struct serve_server server;
static struct serve_shard shard;

static struct serve_root root;

static void start(bool is_shared)
{
    strcpy(folder, "/tmp/gossamer-shard-XXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    memset(&options, 0, sizeof options);
    memset(&counts, 0, sizeof counts);
    memset(&shard, 0, sizeof shard);
    gs_http_options_default(&options.http);
    root = (struct serve_root){.path = folder,
                               .fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)};
    server = (struct serve_server){
        .options = &options,
        .sites = {.roots = &root, .root_count = 1},
        .log_fd = open(log_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
        .counts = &counts,
    };
    CHECK(root.fd >= 0 && server.log_fd >= 0);
    int fd = openat(root.fd, "page", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK_EQ(write(fd, PAGE, strlen(PAGE)), (ssize_t)strlen(PAGE));
    close(fd);
    CHECK_EQ(serve_shard_init(&shard, &server, 0, is_shared), 0);
}

static void stop(void)
{
    close(server.log_fd);
    unlink(log_path);
    unlinkat(root.fd, "page", 0);
    close(root.fd);
    CHECK_EQ(rmdir(folder), 0);
}

static unsigned log_lines(void)
{
    static char text[1 << 18];
    ssize_t n = pread(server.log_fd, text, sizeof text - 1, 0);
    CHECK(n >= 0);
    text[n] = '\0';
    unsigned lines = 0;
    for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1, lines++)
        CHECK(strstr(at, " - - [") && strstr(at, "\"GET /page HTTP/1.1\" 200 8 ") < end);
    return lines;
}

/* Serve one request step by step through a socket pair. */
static bool ask(struct serve_connection *connection, int peer)
{
    char buffer[4096];
    if (write(peer, GET, strlen(GET)) != (ssize_t)strlen(GET) ||
        serve_connection_receive(connection, buffer, sizeof buffer, NOW_NS) <= 0)
        return false;
    if (gs_http_conn_wants(&connection->http) & GS_HTTP_LOAD) {
        struct gs_http_load *load = gs_http_conn_take_load(&connection->http);
        gs_http_load_run(load);
        serve_connection_loaded(connection, load, NOW_NS);
    }
    if (serve_connection_send(connection, NOW_NS) <= 0)
        return false;
    ssize_t n = read(peer, buffer, sizeof buffer);
    return n > (ssize_t)strlen(PAGE) && !memcmp(buffer + n - strlen(PAGE), PAGE, strlen(PAGE)) &&
           !memcmp(buffer, "HTTP/1.1 200 ", 13);
}

static atomic_uint answered;

struct client {
    struct serve_connection connection;
    int pair[2];
    pthread_t thread;
};

static void begin(struct client *client)
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, client->pair), 0);
    serve_connection_init(&client->connection, &(struct serve_accepted){.fd = client->pair[0]},
                          &shard, NOW_NS);
}

static void *run_client(void *argument)
{
    struct client *client = argument;
    for (unsigned i = 0; i < REQUESTS; i++)
        answered += ask(&client->connection, client->pair[1]);
    return NULL;
}

static void end(struct client *client)
{
    serve_connection_done(&client->connection);
    close(client->pair[1]);
}

static void run_one(void)
{
    struct client client;
    begin(&client);
    run_client(&client);
    end(&client);
}

TEST(kernel_threads_share_a_shard)
{
    struct client clients[THREADS];
    start(true);
    answered = 0;
    for (int i = 0; i < THREADS; i++)
        begin(&clients[i]);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(clients[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        end(&clients[i]);
    CHECK_EQ(answered, THREADS * REQUESTS);
    CHECK_EQ(counts.http.requests, THREADS * REQUESTS);
    CHECK_EQ(counts.http.connections, THREADS);
    serve_shard_done(&shard);
    CHECK_EQ(log_lines(), THREADS * REQUESTS);
    stop();
}

TEST(the_end_of_a_shard_writes_the_rest_of_the_log)
{
    start(false);
    run_one();
    unsigned before = log_lines();
    CHECK(before < REQUESTS);
    serve_shard_flush_log(&shard);
    CHECK_EQ(log_lines(), REQUESTS);
    run_one();
    serve_shard_done(&shard);
    CHECK_EQ(log_lines(), 2 * REQUESTS);
    stop();
}

TEST(a_shard_that_was_never_made_can_be_done_with)
{
    struct serve_shard none = {0};
    serve_shard_done(&none);
    CHECK(!none.service);
}

TEST(the_wall_clock_is_updated_four_times_per_second)
{
    start(false);
    serve_shard_enter(&shard, NOW_NS);
    uint64_t first_ns = shard.refresh_ns;
    CHECK(first_ns > NOW_NS && first_ns <= NOW_NS + GS_SECOND / 2);
    serve_shard_enter(&shard, first_ns - 1);
    CHECK_EQ(shard.refresh_ns, first_ns);
    serve_shard_enter(&shard, first_ns);
    CHECK(shard.refresh_ns > first_ns);
    serve_shard_leave(&shard);
    serve_shard_done(&shard);
    stop();
}

TEST(a_process_counts_for_itself_and_adds_that_up_before_it_waits)
{
    struct serve_log_state log_state = {0};
    start(false);
    serve_shard_done(&shard);
    server.log_state = &log_state;
    memset(&shard, 0, sizeof shard);
    CHECK_EQ(serve_shard_init_own(&shard, &server, 0), 0);
    counts.http.requests = 5;
    shard.own.requests = 2;
    shard.own.bytes = 70;
    CHECK_EQ(counts.http.requests, 5);
    serve_shard_flush(&shard);
    CHECK_EQ(counts.http.requests, 7);
    CHECK_EQ(counts.http.bytes, 70);
    serve_shard_flush(&shard);
    CHECK_EQ(counts.http.requests, 7);
    serve_shard_done(&shard);
    stop();
}
