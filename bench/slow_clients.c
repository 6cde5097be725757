/* A slow-client attack (as Slowloris): each client transfers one byte per second.
 *
 *     slow_clients header|blank|body|read PORT PATH COUNT SECONDS [reconnect]
 *
 * header    sends a request header that does not end
 * blank     sends empty lines before a request
 * body      sends the body of a request, after a complete header
 * read      requests PATH and reads the response
 *
 *     IDLE --connect_client--> CONNECTING --on_connected--> OPEN --on_closed--> CLOSED
 *       ^                          |                                              |
 *       `--------------------------+------- fail, or on_closed with `reconnect' --'
 *
 * Ends after SECONDS, at SIGTERM, or when the server has closed all connections; with `reconnect',
 * closed clients connect again. Then it prints one line of JSON with the ages at which the server
 * closed connections. The turns of the clients are spread evenly over each second, which avoids
 * bursts and a timer per client. */
#include <arpa/inet.h>
#include <errno.h>
#include <gossamer/loop.h>
#include <gossamer/sys.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS (GS_MILLISECOND / 5)
/* All clients connect within this time. */
#define RAMP_SECONDS 2
/* Maximum turns per tick, so that other processes on the same core are not delayed. */
#define TURNS_MAX 4
#define RECEIVE_BUFFER 4096

enum mode { HEADER, BLANK, BODY, READ, MODES };
static const char *const mode_names[MODES] = {"header", "blank", "body", "read"};

enum state { IDLE, CONNECTING, OPEN, CLOSED };

struct client {
    struct gs_io io;
    enum state state;
    uint32_t sent;
    uint64_t opened_ns;
};

static struct {
    enum mode mode;
    uint16_t port;
    char request[512]; /* sent at once, or byte by byte in mode HEADER */
    uint32_t request_length;
    uint32_t count;
    bool reconnects;

    struct gs_loop *loop;
    struct client *clients;
    uint64_t start_ns, turns;
    uint32_t open, max_open, finished;
    uint64_t opened, closed, failed;
    uint64_t min_age_ns, max_age_ns;
} slow;

static void fatal(const char *message, int err)
{
    fprintf(stderr, "slow_clients: %s%s%s\n", message, err ? ": " : "", err ? strerror(-err) : "");
    exit(2);
}

/* ---- Client ---- */

static void close_client(struct client *client)
{
    int fd = client->io.fd;
    gs_io_stop(&client->io);
    gs_loop_fd_closed(slow.loop, fd);
    gs_sys_close(fd);
    client->state = slow.reconnects ? IDLE : CLOSED;
    if (!slow.reconnects && ++slow.finished == slow.count)
        gs_loop_stop(slow.loop);
}

static void fail(struct client *client)
{
    slow.failed++;
    close_client(client);
}

static void record_age(const struct client *client)
{
    uint64_t age_ns = gs_clock_now() - client->opened_ns;
    if (age_ns > slow.max_age_ns)
        slow.max_age_ns = age_ns;
}

/* The server has closed the connection. */
static void on_closed(struct client *client)
{
    uint64_t age_ns = gs_clock_now() - client->opened_ns;
    record_age(client);
    if (age_ns < slow.min_age_ns)
        slow.min_age_ns = age_ns;
    slow.closed++;
    slow.open--;
    close_client(client);
}

/* Returns the byte that follows the first `sent` bytes. */
static char byte_at(uint32_t sent)
{
    if (slow.mode == BLANK)
        return sent % 2 ? '\n' : '\r';
    return sent < slow.request_length ? slow.request[sent] : 'x';
}

static void transfer_byte(struct client *client)
{
    char byte = byte_at(client->sent);
    ssize_t n = slow.mode == READ ? gs_sys_recv(client->io.fd, &byte, 1, 0)
                                  : gs_sys_send(client->io.fd, &byte, 1, 0);
    if (n == 1)
        client->sent++;
    else if (n != -EAGAIN && n != -EINTR)
        on_closed(client);
}

static void on_connected(struct client *client)
{
    int err = 0;
    socklen_t length = sizeof err;
    if (gs_sys_getsockopt(client->io.fd, SOL_SOCKET, SO_ERROR, &err, &length) || err) {
        fail(client);
        return;
    }
    bool sends_request = slow.mode == BODY || slow.mode == READ;
    if (sends_request &&
        gs_sys_send(client->io.fd, slow.request, slow.request_length, 0) != slow.request_length) {
        fail(client);
        return;
    }
    client->state = OPEN;
    client->opened_ns = gs_clock_now();
    client->sent = sends_request ? slow.request_length : 0;
    slow.opened++;
    if (++slow.open > slow.max_open)
        slow.max_open = slow.open;
    if (!sends_request)
        transfer_byte(client);
}

/* Discard the bytes that a sending client receives, and detect the end of the connection. */
static void discard_received(struct client *client)
{
    char bytes[2048];
    ssize_t n;
    do
        n = gs_sys_recv(client->io.fd, bytes, sizeof bytes, 0);
    while (n > 0 || n == -EINTR);
    if (n != -EAGAIN)
        on_closed(client);
}

static void on_events(struct gs_io *io, unsigned events)
{
    struct client *client = io->watcher.data;
    if (events & GS_FAILED)
        fatal("cannot watch a connection", gs_io_error(io));
    if (client->state == CONNECTING)
        on_connected(client);
    else if (slow.mode != READ)
        discard_received(client);
    else if (events & GS_HANGUP)
        on_closed(client);
}

static void connect_client(struct client *client)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(slow.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int size = RECEIVE_BUFFER;
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fatal("cannot create a socket", fd);
    int err =
        slow.mode == READ ? gs_sys_setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) : 0;
    if (err)
        fatal("cannot set the size of the receive buffer", err);
    gs_io_set(&client->io, fd, GS_READ | GS_WRITE | GS_EDGE);
    err = gs_sys_connect(fd, (struct sockaddr *)&address, sizeof address);
    if (!err || err == -EINPROGRESS)
        err = gs_io_start(&client->io);
    client->state = CONNECTING;
    if (err)
        fail(client);
}

/* ---- Turns ---- */

static void take_turn(uint64_t turn)
{
    uint32_t index = (uint32_t)(turn % slow.count);
    struct client *client = &slow.clients[index];
    if (client->state == OPEN)
        transfer_byte(client);
    else if (client->state == IDLE && turn / slow.count >= index % RAMP_SECONDS)
        connect_client(client);
}

/* Each client has one turn per second. Turns that were missed while this process did not run follow
 * later, a few per tick. */
static void on_tick(struct gs_timer *timer)
{
    uint64_t passed_ns = gs_loop_now(timer->watcher.loop) - slow.start_ns;
    uint64_t scheduled = passed_ns / GS_MICROSECOND * slow.count / 1000000;
    for (unsigned n = 0; n < TURNS_MAX && slow.turns < scheduled; n++)
        take_turn(slow.turns++);
}

static void on_end(struct gs_timer *timer)
{
    gs_loop_stop(timer->watcher.loop);
}

static void on_signal(struct gs_signal *signal)
{
    gs_loop_stop(signal->watcher.loop);
}

/* ---- Program ---- */

static void build_request(const char *path)
{
    static const char *const forms[MODES] = {
        [HEADER] = "GET %s HTTP/1.1\r\nHost: slow\r\nX-Slow: ",
        [BLANK] = "%.0s",
        [BODY] = "GET %s HTTP/1.1\r\nHost: slow\r\nContent-Length: 1000000\r\n\r\n",
        [READ] = "GET %s HTTP/1.1\r\nHost: slow\r\n\r\n",
    };
    int n = snprintf(slow.request, sizeof slow.request, forms[slow.mode], path);
    if (n < 0 || (size_t)n >= sizeof slow.request)
        fatal("PATH is too long", 0);
    slow.request_length = (uint32_t)n;
}

static void parse_arguments(int argc, char **argv)
{
    if (argc != 6 && (argc != 7 || strcmp(argv[6], "reconnect")))
        fatal("usage: slow_clients header|blank|body|read PORT PATH COUNT SECONDS [reconnect]", 0);
    while (slow.mode < MODES && strcmp(argv[1], mode_names[slow.mode]))
        slow.mode++;
    slow.port = (uint16_t)strtoul(argv[2], NULL, 10);
    slow.count = (uint32_t)strtoul(argv[4], NULL, 10);
    slow.reconnects = argc == 7;
    if (slow.mode == MODES || !slow.port || !slow.count)
        fatal("invalid arguments", 0);
    build_request(argv[3]);
}

static void start(uint64_t seconds)
{
    static struct gs_timer tick, end;
    static struct gs_signal term;
    int err = gs_loop_new(&slow.loop);
    slow.clients = calloc(slow.count, sizeof *slow.clients);
    if (err || !slow.clients)
        fatal("cannot start", err ? err : -ENOMEM);
    for (uint32_t i = 0; i < slow.count; i++) {
        gs_io_init(&slow.clients[i].io, slow.loop, on_events);
        slow.clients[i].io.watcher.data = &slow.clients[i];
    }
    slow.start_ns = gs_loop_now(slow.loop);
    slow.min_age_ns = GS_NEVER;
    gs_timer_init(&tick, slow.loop, on_tick);
    gs_timer_init(&end, slow.loop, on_end);
    gs_signal_init(&term, slow.loop, on_signal);
    err = gs_timer_start_repeat(&tick, slow.start_ns + TICK_NS, TICK_NS);
    if (!err)
        err = gs_timer_start(&end, slow.start_ns + seconds * GS_SECOND);
    if (!err)
        err = gs_signal_start(&term, SIGTERM);
    if (err)
        fatal("cannot start", err);
}

static void report(void)
{
    for (uint32_t i = 0; i < slow.count; i++)
        if (slow.clients[i].state == OPEN)
            record_age(&slow.clients[i]);
    printf("{\"clients\": %" PRIu32 ", \"opened\": %" PRIu64 ", \"max_open\": %" PRIu32
           ", \"closed\": %" PRIu64 ", \"failed\": %" PRIu64 ", \"open\": %" PRIu32,
           slow.count, slow.opened, slow.max_open, slow.closed, slow.failed, slow.open);
    printf(", \"min_age_s\": %.3f, \"max_age_s\": %.3f}\n",
           slow.closed ? (double)slow.min_age_ns / (double)GS_SECOND : 0,
           (double)slow.max_age_ns / (double)GS_SECOND);
}

int main(int argc, char **argv)
{
    parse_arguments(argc, argv);
    start(strtoul(argv[5], NULL, 10));
    int err = gs_loop_run(slow.loop);
    if (err)
        fatal("the loop failed", err);
    report();
    gs_loop_free(slow.loop);
    free(slow.clients);
    return 0;
}
