/* Emulation of distant client hosts on one machine: a network namespace per host, and a relay that
 * delays and drops packets between the hosts and the server.
 *
 *     relay SEED DELAY_US,LOSS,LOSS_BACK...
 *
 * There is one argument per host: the delay in each direction, and the probability that a packet is
 * lost on the way to the server, and on the way back.
 *
 * The relay prints the server's address, then a line per host: its address, and the path of its
 * namespace, for nsenter --net. SIGTERM and SIGINT end it. It then prints for each host the number
 * of packets passed, lost, and dropped by overflow, to the server and back; packets in transit are
 * not counted. Exit status: 2 for a usage error, 3 without the required capabilities, 1 for other
 * errors. */
#include "bench/wan/host.h"
#include "bench/wan/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gossamer/loop.h>
#include <gossamer/sys.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Packets are delivered at multiples of this time, in batches. */
#define TICK_NS (100 * GS_MICROSECOND)

enum { HOSTS_MAX = 250, BATCH = 64, FAILED = 1, USAGE_ERROR = 2, NOT_PERMITTED = 3 };
/* Offsets in an IPv4 header, and its minimum size. */
enum { SOURCE_OFFSET = 12, TARGET_OFFSET = 16, HEADER_MIN = 20 };

struct path {
    struct host host;
    struct gs_io io;
    struct wire to_server, to_host;
};

static struct relay {
    struct gs_loop *loop;
    struct host server;
    struct gs_io io;
    struct gs_timer timer;
    struct path paths[HOSTS_MAX];
    unsigned count;
    uint64_t next_ns; /* deadline of the timer */
} relay;

static void check(int err, const char *what)
{
    if (!err)
        return;
    bool is_refused = err == -EPERM;
    if (is_refused)
        fprintf(stderr, "relay: requires CAP_NET_ADMIN and CAP_SYS_ADMIN\n");
    else
        fprintf(stderr, "relay: %s: %s\n", what, strerror(-err));
    exit(is_refused ? NOT_PERMITTED : FAILED);
}

static void schedule_arrival(uint64_t arrival_ns)
{
    if (arrival_ns >= relay.next_ns)
        return;
    relay.next_ns = (arrival_ns + TICK_NS - 1) / TICK_NS * TICK_NS;
    gs_timer_start(&relay.timer, relay.next_ns);
}

static in_addr_t address_at(const uint8_t *packet, size_t offset)
{
    in_addr_t address;
    memcpy(&address, packet + offset, sizeof address);
    return address;
}

/* Returns the wire for a packet from a host, or from the server (NULL). Returns NULL if the packet
 * has no destination here, like those that the kernel itself sends. */
static struct wire *find_wire(const uint8_t *packet, size_t n, struct path *from)
{
    if (n < HEADER_MIN || packet[0] >> 4 != 4)
        return NULL;
    in_addr_t target = address_at(packet, TARGET_OFFSET), server = relay.server.address;
    if (from)
        return target == server ? &from->to_server : NULL;
    unsigned number = ntohl(target) - ntohl(server) - 1;
    bool is_known = address_at(packet, SOURCE_OFFSET) == server && number < relay.count;
    return is_known ? &relay.paths[number].to_host : NULL;
}

/* Read up to BATCH packets from a host, or from the server (NULL). Returns whether more may
 * follow. */
static bool relay_packets(struct gs_io *io, struct path *from)
{
    uint8_t bytes[WIRE_MTU];
    gs_loop_update_now(relay.loop);
    uint64_t now_ns = gs_loop_now(relay.loop);
    for (int i = 0; i < BATCH; i++) {
        ssize_t n = gs_sys_read(io->fd, bytes, sizeof bytes);
        if (n <= 0)
            return false;
        struct wire *wire = find_wire(bytes, (size_t)n, from);
        if (!wire)
            continue;
        wire_send(wire, bytes, (size_t)n, now_ns);
        schedule_arrival(wire_next_arrival(wire));
    }
    return true;
}

static void on_server(struct gs_io *io, unsigned events)
{
    (void)events;
    relay_packets(io, NULL);
}

static void on_host(struct gs_io *io, unsigned events)
{
    (void)events;
    relay_packets(io, gs_container_of(io, struct path, io));
}

/* Read the packets that have been sent, so that they are counted. */
static void drain(void)
{
    while (relay_packets(&relay.io, NULL)) {
    }
    for (unsigned i = 0; i < relay.count; i++)
        while (relay_packets(&relay.paths[i].io, &relay.paths[i])) {
        }
}

/* Write packets that have arrived, in order. Returns when the next one arrives. */
static uint64_t deliver_packets(struct wire *wire, int tun_fd, uint64_t now_ns)
{
    while (wire_next_arrival(wire) <= now_ns) {
        const struct wire_packet *packet = wire_receive(wire);
        gs_sys_write(tun_fd, packet->bytes, packet->n);
    }
    return wire_next_arrival(wire);
}

static void on_timer(struct gs_timer *timer)
{
    uint64_t now_ns = gs_loop_now(timer->watcher.loop), next_ns = GS_NEVER;
    for (unsigned i = 0; i < relay.count; i++) {
        struct path *path = &relay.paths[i];
        uint64_t forth_ns = deliver_packets(&path->to_server, relay.server.tun_fd, now_ns);
        uint64_t back_ns = deliver_packets(&path->to_host, path->host.tun_fd, now_ns);
        uint64_t arrival_ns = forth_ns < back_ns ? forth_ns : back_ns;
        next_ns = arrival_ns < next_ns ? arrival_ns : next_ns;
    }
    relay.next_ns = GS_NEVER;
    schedule_arrival(next_ns);
}

static void on_signal(struct gs_signal *signal)
{
    gs_loop_stop(signal->watcher.loop);
}

static int watch(struct gs_io *io, int fd, gs_io_fn *callback)
{
    gs_io_init(io, relay.loop, callback);
    gs_io_set(io, fd, GS_READ);
    return gs_io_start(io);
}

static void print_address(const char *name, in_addr_t address)
{
    char text[INET_ADDRSTRLEN];
    printf("%s %s", name, inet_ntop(AF_INET, &(struct in_addr){address}, text, sizeof text));
}

struct link {
    uint64_t delay_us;
    double loss, loss_to_host;
};

/* Returns whether the argument is valid. */
static bool parse_link(const char *argument, struct link *ret_link)
{
    char *end;
    ret_link->delay_us = strtoul(argument, &end, 10);
    if (*end != ',')
        return false;
    ret_link->loss = strtod(end + 1, &end);
    if (*end != ',')
        return false;
    ret_link->loss_to_host = strtod(end + 1, &end);
    return !*end;
}

static void add(const struct link *link, uint64_t seed, unsigned net)
{
    uint64_t number = relay.count, delay_ns = link->delay_us * GS_MICROSECOND;
    struct path *path = &relay.paths[number];
    check(wire_init(&path->to_server, delay_ns, link->loss, seed + 2 * number), "memory");
    check(wire_init(&path->to_host, delay_ns, link->loss_to_host, seed + 2 * number + 1), "memory");
    check(host_init(&path->host, &relay.server, net, relay.count), "a host's network");
    check(watch(&path->io, path->host.tun_fd, on_host), "watching a host");
    print_address("host", path->host.address);
    printf(" /proc/%d/fd/%d\n", (int)getpid(), path->host.netns_fd);
    relay.count++;
}

static void print_counts(const struct wire *wire)
{
    printf(" %" PRIu64 " %" PRIu64 " %" PRIu64, wire->passed, wire->lost, wire->overflowed);
}

static void finish(void)
{
    drain();
    for (unsigned i = 0; i < relay.count; i++) {
        struct path *path = &relay.paths[i];
        print_address("packets", path->host.address);
        print_counts(&path->to_server);
        print_counts(&path->to_host);
        putchar('\n');
        wire_done(&path->to_server);
        wire_done(&path->to_host);
    }
    gs_loop_free(relay.loop);
    for (unsigned i = 0; i < relay.count; i++)
        host_done(&relay.paths[i].host);
    host_done(&relay.server);
}

int main(int argc, char **argv)
{
    struct gs_signal signals[2];
    unsigned net;
    check(host_init_server(&relay.server, &net), "the server's network");
    check(gs_loop_new(&relay.loop), "the loop");
    print_address("server", relay.server.address);
    putchar('\n');
    for (int i = 2; i < argc; i++) {
        struct link link;
        if (relay.count == HOSTS_MAX || !parse_link(argv[i], &link)) {
            fprintf(stderr, "relay: \"%s\" is not DELAY_US,LOSS,LOSS_BACK\n", argv[i]);
            return USAGE_ERROR;
        }
        add(&link, strtoull(argv[1], NULL, 10), net);
    }
    check(watch(&relay.io, relay.server.tun_fd, on_server), "watching the server");
    relay.next_ns = GS_NEVER;
    gs_timer_init(&relay.timer, relay.loop, on_timer);
    for (int i = 0; i < 2; i++) {
        gs_signal_init(&signals[i], relay.loop, on_signal);
        check(gs_signal_start(&signals[i], i ? SIGINT : SIGTERM), "a signal");
    }
    puts("ready");
    fflush(stdout);
    int err = gs_loop_run(relay.loop);
    finish();
    return err ? FAILED : 0;
}
