/* Clients that hold a server's connections with a byte a second each.
 *
 *     slow_clients header|blank|body|read PORT PATH COUNT SECONDS [again]
 *
 * header  sends a request's header that does not end        blank  sends empty lines before one
 * body    sends a request's body, after its whole header    read   asks for PATH and reads the answer
 *
 *     AWAITED --connect_one--> CONNECTING --begin--> HELD --finish--> CLOSED
 *        ^                          |                                   |
 *        `--------------------------+----- fail, or finish with `again' '
 *
 * Ends after SECONDS, at SIGTERM, or when the server has closed all; with `again', who was closed
 * connects anew. Then one line of JSON tells how long the server bore with them. The clients take
 * turns that are spread evenly over the second, so that they neither burst nor need a timer each. */
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
#define RAMP_SECONDS 2 /* in which all connect */
#define TURNS_MOST 4   /* in one tick, so that those who share our core are not held up */
#define RECEIVE_BUFFER 4096

enum mode { HEADER, BLANK, BODY, READ, MODES };
static const char *const mode_names[MODES] = {"header", "blank", "body", "read"};

enum state { AWAITED, CONNECTING, HELD, CLOSED };

struct client {
    struct gs_io io;
    enum state state;
    uint32_t sent;
    uint64_t began_ns;
};

static struct {
    enum mode mode;
    uint16_t port;
    char opening[512]; /* what a client begins with; sent at once, except a header */
    uint32_t opening_n;
    uint32_t count;
    bool again;

    struct gs_loop *loop;
    struct client *clients;
    uint64_t start_ns, turns;
    uint32_t held, held_most, over;
    uint64_t begun, closed, failed;
    uint64_t fastest_ns, slowest_ns;
} slow;

static void die(const char *what, int err)
{
    fprintf(stderr, "slow_clients: %s%s%s\n", what, err ? ": " : "", err ? strerror(-err) : "");
    exit(2);
}

/* ---- The life of a client ---- */

static void hang_up(struct client *client)
{
    int fd = client->io.fd;
    gs_io_stop(&client->io);
    gs_loop_fd_closed(slow.loop, fd);
    gs_sys_close(fd);
    client->state = slow.again ? AWAITED : CLOSED;
    if (!slow.again && ++slow.over == slow.count)
        gs_loop_stop(slow.loop);
}

static void fail(struct client *client)
{
    slow.failed++;
    hang_up(client);
}

static void note_age(const struct client *client)
{
    uint64_t age_ns = gs_clock_now() - client->began_ns;
    if (age_ns > slow.slowest_ns)
        slow.slowest_ns = age_ns;
}

/* The server has closed the connection. */
static void finish(struct client *client)
{
    uint64_t age_ns = gs_clock_now() - client->began_ns;
    note_age(client);
    if (age_ns < slow.fastest_ns)
        slow.fastest_ns = age_ns;
    slow.closed++;
    slow.held--;
    hang_up(client);
}

/* The byte that is to be sent after so many. */
static char byte_at(uint32_t sent)
{
    if (slow.mode == BLANK)
        return sent % 2 ? '\n' : '\r';
    return sent < slow.opening_n ? slow.opening[sent] : 'x';
}

static void trickle(struct client *client)
{
    char byte = byte_at(client->sent);
    ssize_t n = slow.mode == READ ? gs_sys_recv(client->io.fd, &byte, 1, 0)
                                  : gs_sys_send(client->io.fd, &byte, 1, 0);
    if (n == 1)
        client->sent++;
    else if (n != -EAGAIN && n != -EINTR)
        finish(client);
}

static void begin(struct client *client)
{
    int err = 0;
    socklen_t length = sizeof err;
    if (gs_sys_getsockopt(client->io.fd, SOL_SOCKET, SO_ERROR, &err, &length) || err) {
        fail(client);
        return;
    }
    bool at_once = slow.mode == BODY || slow.mode == READ;
    if (at_once && gs_sys_send(client->io.fd, slow.opening, slow.opening_n, 0) != slow.opening_n) {
        fail(client);
        return;
    }
    client->state = HELD;
    client->began_ns = gs_clock_now();
    client->sent = at_once ? slow.opening_n : 0;
    slow.begun++;
    if (++slow.held > slow.held_most)
        slow.held_most = slow.held;
    if (!at_once)
        trickle(client);
}

/* What a sender is told is of no interest, only that it ends. */
static void receive_all(struct client *client)
{
    char bytes[2048];
    ssize_t n;
    do
        n = gs_sys_recv(client->io.fd, bytes, sizeof bytes, 0);
    while (n > 0 || n == -EINTR);
    if (n != -EAGAIN)
        finish(client);
}

static void on_events(struct gs_io *io, unsigned events)
{
    struct client *client = io->watcher.data;
    if (events & GS_FAILED)
        die("can't watch a connection", gs_io_error(io));
    if (client->state == CONNECTING)
        begin(client);
    else if (slow.mode != READ)
        receive_all(client);
    else if (events & GS_HANGUP)
        finish(client);
}

static void connect_one(struct client *client)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(slow.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int size = RECEIVE_BUFFER;
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("can't make a socket", fd);
    int err =
        slow.mode == READ ? gs_sys_setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) : 0;
    if (err)
        die("can't make a receive buffer small", err);
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
    if (client->state == HELD)
        trickle(client);
    else if (client->state == AWAITED && turn / slow.count >= index % RAMP_SECONDS)
        connect_one(client);
}

/* Each client has a turn a second. Those who come late because we did not run are made up for,
 * a few at a time. */
static void on_tick(struct gs_timer *timer)
{
    uint64_t passed_ns = gs_loop_now(timer->watcher.loop) - slow.start_ns;
    uint64_t due = passed_ns / GS_MICROSECOND * slow.count / 1000000;
    for (unsigned n = 0; n < TURNS_MOST && slow.turns < due; n++)
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

/* ---- The whole ---- */

static void form_opening(const char *path)
{
    static const char *const forms[MODES] = {
        [HEADER] = "GET %s HTTP/1.1\r\nHost: slow\r\nX-Slow: ",
        [BLANK] = "%.0s",
        [BODY] = "GET %s HTTP/1.1\r\nHost: slow\r\nContent-Length: 1000000\r\n\r\n",
        [READ] = "GET %s HTTP/1.1\r\nHost: slow\r\n\r\n",
    };
    int n = snprintf(slow.opening, sizeof slow.opening, forms[slow.mode], path);
    if (n < 0 || (size_t)n >= sizeof slow.opening)
        die("PATH is too long", 0);
    slow.opening_n = (uint32_t)n;
}

static void read_words(int argc, char **argv)
{
    if (argc != 6 && (argc != 7 || strcmp(argv[6], "again")))
        die("usage: slow_clients header|blank|body|read PORT PATH COUNT SECONDS [again]", 0);
    while (slow.mode < MODES && strcmp(argv[1], mode_names[slow.mode]))
        slow.mode++;
    slow.port = (uint16_t)strtoul(argv[2], NULL, 10);
    slow.count = (uint32_t)strtoul(argv[4], NULL, 10);
    slow.again = argc == 7;
    if (slow.mode == MODES || !slow.port || !slow.count)
        die("a word is not understood", 0);
    form_opening(argv[3]);
}

static void start(uint64_t seconds)
{
    static struct gs_timer tick, end;
    static struct gs_signal term;
    int err = gs_loop_new(&slow.loop);
    slow.clients = calloc(slow.count, sizeof *slow.clients);
    if (err || !slow.clients)
        die("can't start", err ? err : -ENOMEM);
    for (uint32_t i = 0; i < slow.count; i++) {
        gs_io_init(&slow.clients[i].io, slow.loop, on_events);
        slow.clients[i].io.watcher.data = &slow.clients[i];
    }
    slow.start_ns = gs_loop_now(slow.loop);
    slow.fastest_ns = GS_NEVER;
    gs_timer_init(&tick, slow.loop, on_tick);
    gs_timer_init(&end, slow.loop, on_end);
    gs_signal_init(&term, slow.loop, on_signal);
    err = gs_timer_start_every(&tick, slow.start_ns + TICK_NS, TICK_NS);
    if (!err)
        err = gs_timer_start(&end, slow.start_ns + seconds * GS_SECOND);
    if (!err)
        err = gs_signal_start(&term, SIGTERM);
    if (err)
        die("can't start", err);
}

static void report(void)
{
    for (uint32_t i = 0; i < slow.count; i++)
        if (slow.clients[i].state == HELD)
            note_age(&slow.clients[i]);
    printf("{\"clients\": %" PRIu32 ", \"begun\": %" PRIu64 ", \"held_most\": %" PRIu32
           ", \"closed\": %" PRIu64 ", \"failed\": %" PRIu64 ", \"left\": %" PRIu32,
           slow.count, slow.begun, slow.held_most, slow.closed, slow.failed, slow.held);
    printf(", \"fastest_s\": %.3f, \"slowest_s\": %.3f}\n",
           slow.closed ? (double)slow.fastest_ns / (double)GS_SECOND : 0,
           (double)slow.slowest_ns / (double)GS_SECOND);
}

int main(int argc, char **argv)
{
    read_words(argc, argv);
    start(strtoul(argv[5], NULL, 10));
    int err = gs_loop_run(slow.loop);
    if (err)
        die("the loop failed", err);
    report();
    gs_loop_free(slow.loop);
    free(slow.clients);
    return 0;
}
