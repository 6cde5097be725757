/* Client hosts far away, on one machine: network namespaces, and what the way to a server does to packets.
 *
 *     relay SEED DELAY_US,LOSS,LOSS_BACK...     one argument a host: the delay of either direction, and the chance of each
 *                                               packet to be lost on the way to the server, and on the way back
 *
 * It prints the server's address, then a line a host: its address, and the path of its namespace, for nsenter --net.
 * It ends with SIGTERM or SIGINT, and tells what became of the packets: of each host, those that passed, were lost, and
 * found no room, forth and back; what was under way is none of these. Exit status: 2 for a wrong command, 3 if it is
 * not permitted, 1 if something failed. */
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

#define TICK_NS (100 * GS_MICROSECOND) /* packets arrive at its multiples: many in one go */

enum { HOSTS = 250, BATCH = 64, FAILED = 1, MISUSED = 2, FORBIDDEN = 3 };
enum { SOURCE_AT = 12, TARGET_AT = 16, LEAST_HEAD = 20 }; /* of an IPv4 packet */

struct way {
    struct host host;
    struct gs_io io;
    struct wire forth, back;
};

static struct relay {
    struct gs_loop *loop;
    struct host server;
    struct gs_io io;
    struct gs_timer timer;
    struct way ways[HOSTS];
    unsigned count;
    uint64_t next_ns; /* what the timer is set to */
} relay;

static void must(int err, const char *what)
{
    if (!err)
        return;
    bool is_forbidden = err == -EPERM;
    if (is_forbidden)
        fprintf(stderr, "relay: needs CAP_NET_ADMIN and CAP_SYS_ADMIN\n");
    else
        fprintf(stderr, "relay: %s: %s\n", what, strerror(-err));
    exit(is_forbidden ? FORBIDDEN : FAILED);
}

static void expect(uint64_t due_ns)
{
    if (due_ns >= relay.next_ns)
        return;
    relay.next_ns = (due_ns + TICK_NS - 1) / TICK_NS * TICK_NS;
    gs_timer_start(&relay.timer, relay.next_ns);
}

static in_addr_t address_at(const uint8_t *packet, size_t offset)
{
    in_addr_t address;
    memcpy(&address, packet + offset, sizeof address);
    return address;
}

/* The wire that a packet goes on from a place; NULL if it goes nowhere, as what the kernel sends of its own accord. */
static struct wire *wire_of(const uint8_t *packet, size_t n, struct way *from)
{
    if (n < LEAST_HEAD || packet[0] >> 4 != 4)
        return NULL;
    in_addr_t target = address_at(packet, TARGET_AT), server = relay.server.address;
    if (from)
        return target == server ? &from->forth : NULL;
    unsigned number = ntohl(target) - ntohl(server) - 1;
    bool is_known = address_at(packet, SOURCE_AT) == server && number < relay.count;
    return is_known ? &relay.ways[number].back : NULL;
}

/* Up to BATCH packets of a place; from: the host's way, NULL for the server. Returns whether there may be more. */
static bool relay_packets(struct gs_io *io, struct way *from)
{
    uint8_t bytes[WIRE_MTU];
    gs_loop_update_now(relay.loop);
    uint64_t now_ns = gs_loop_now(relay.loop);
    for (int i = 0; i < BATCH; i++) {
        ssize_t n = gs_sys_read(io->fd, bytes, sizeof bytes);
        if (n <= 0)
            return false;
        struct wire *wire = wire_of(bytes, (size_t)n, from);
        if (!wire)
            continue;
        wire_put(wire, bytes, (size_t)n, now_ns);
        expect(wire_due(wire));
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
    relay_packets(io, gs_container_of(io, struct way, io));
}

/* Read what has been sent already, so that the counts tell of it. */
static void drain(void)
{
    while (relay_packets(&relay.io, NULL)) {
    }
    for (unsigned i = 0; i < relay.count; i++)
        while (relay_packets(&relay.ways[i].io, &relay.ways[i])) {
        }
}

/* Hand over what has arrived, in its order; returns when the next packet does. */
static uint64_t deliver(struct wire *wire, int tun, uint64_t now_ns)
{
    while (wire_due(wire) <= now_ns) {
        const struct wire_packet *packet = wire_take(wire);
        gs_sys_write(tun, packet->bytes, packet->n);
    }
    return wire_due(wire);
}

static void on_time(struct gs_timer *timer)
{
    uint64_t now_ns = gs_loop_now(timer->watcher.loop), next_ns = GS_NEVER;
    for (unsigned i = 0; i < relay.count; i++) {
        struct way *way = &relay.ways[i];
        uint64_t forth_ns = deliver(&way->forth, relay.server.tun, now_ns);
        uint64_t back_ns = deliver(&way->back, way->host.tun, now_ns);
        uint64_t due_ns = forth_ns < back_ns ? forth_ns : back_ns;
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    relay.next_ns = GS_NEVER;
    expect(next_ns);
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
    double loss, loss_back;
};

/* Returns whether the argument is one. */
static bool read_link(const char *argument, struct link *ret_link)
{
    char *end;
    ret_link->delay_us = strtoul(argument, &end, 10);
    if (*end != ',')
        return false;
    ret_link->loss = strtod(end + 1, &end);
    if (*end != ',')
        return false;
    ret_link->loss_back = strtod(end + 1, &end);
    return !*end;
}

static void add(const struct link *link, uint64_t seed, unsigned net)
{
    uint64_t number = relay.count, delay_ns = link->delay_us * GS_MICROSECOND;
    struct way *way = &relay.ways[number];
    must(wire_init(&way->forth, delay_ns, link->loss, seed + 2 * number), "memory");
    must(wire_init(&way->back, delay_ns, link->loss_back, seed + 2 * number + 1), "memory");
    must(host_init(&way->host, &relay.server, net, relay.count), "a host's network");
    must(watch(&way->io, way->host.tun, on_host), "watching a host");
    print_address("host", way->host.address);
    printf(" /proc/%d/fd/%d\n", (int)getpid(), way->host.space);
    relay.count++;
}

static void tell_counts(const struct wire *wire)
{
    printf(" %" PRIu64 " %" PRIu64 " %" PRIu64, wire->passed, wire->lost, wire->cut);
}

static void end_all(void)
{
    drain();
    for (unsigned i = 0; i < relay.count; i++) {
        struct way *way = &relay.ways[i];
        print_address("packets", way->host.address);
        tell_counts(&way->forth);
        tell_counts(&way->back);
        putchar('\n');
        wire_done(&way->forth);
        wire_done(&way->back);
    }
    gs_loop_free(relay.loop);
    for (unsigned i = 0; i < relay.count; i++)
        host_done(&relay.ways[i].host);
    host_done(&relay.server);
}

int main(int argc, char **argv)
{
    struct gs_signal signals[2];
    unsigned net;
    must(host_init_server(&relay.server, &net), "the server's network");
    must(gs_loop_new(&relay.loop), "the loop");
    print_address("server", relay.server.address);
    putchar('\n');
    for (int i = 2; i < argc; i++) {
        struct link link;
        if (relay.count == HOSTS || !read_link(argv[i], &link)) {
            fprintf(stderr, "relay: \"%s\" is no DELAY_US,LOSS,LOSS_BACK\n", argv[i]);
            return MISUSED;
        }
        add(&link, strtoull(argv[1], NULL, 10), net);
    }
    must(watch(&relay.io, relay.server.tun, on_server), "watching the server");
    relay.next_ns = GS_NEVER;
    gs_timer_init(&relay.timer, relay.loop, on_time);
    for (int i = 0; i < 2; i++) {
        gs_signal_init(&signals[i], relay.loop, on_signal);
        must(gs_signal_start(&signals[i], i ? SIGINT : SIGTERM), "a signal");
    }
    puts("ready");
    fflush(stdout);
    int err = gs_loop_run(relay.loop);
    end_all();
    return err ? FAILED : 0;
}
