/* Connections that are closed to make room for others: when no more may be open and a client waits
 * in the accept queue, one of those gives way that wait for their client. An address that has more
 * than its share of the connections gives way first, the one with the most. Of its connections, or
 * of all if none has more, one gives way whose handshake has taken more than a second, the longest;
 * then the one that has been idle longest; then one that waits for the rest of a request's head, or
 * is in a shorter handshake; then one whose last answer was sent, and which only waits for the
 * client to close.
 *
 *     struct serve_candidates candidates;
 *     serve_candidates_init(&candidates);
 *     for (...)                                       each connection, or some
 *         serve_candidates_add(&candidates, connection, address, waits);
 *     connection = serve_candidates_take(&candidates); */
#ifndef GS_SERVE_EVICTION_H
#define GS_SERVE_EVICTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* So many connections are compared at most, so that a choice among many stays cheap. */
#define SERVE_EVICTION_CANDIDATES 256u

/* What a connection waits for; those with less give way first, except for a handshake that has just
 * started. */
enum serve_wait_kind {
    SERVE_WAITS_FOR_HANDSHAKE,
    SERVE_WAITS_IDLE,
    SERVE_WAITS_FOR_HEAD,
    SERVE_WAITS_FOR_CLOSE,
};

/* What a connection waits for, and since when, as one number, which is less for one that gives way
 * before; SERVE_BUSY: it may not be closed. */
#define SERVE_BUSY 0u
#define SERVE_WAIT_KIND_SHIFT 62

static inline uint64_t serve_waits(enum serve_wait_kind kind, uint64_t since_ns)
{
    return (uint64_t)kind << SERVE_WAIT_KIND_SHIFT | (since_ns ? since_ns : 1);
}

static inline uint64_t serve_waits_since(uint64_t waits)
{
    return waits & ((1ull << SERVE_WAIT_KIND_SHIFT) - 1);
}

struct serve_candidate {
    void *connection;
    uint64_t address, waits;
    unsigned first; /* the index of the first one with this address */
    unsigned same;  /* of the first one: how many have its address */
};

struct serve_candidates {
    unsigned count;
    /* Only waits that began before give way: of an address that has more than its share, of others;
     * initially UINT64_MAX. */
    uint64_t crowd_before_ns, before_ns;
    uint64_t now_ns;
    struct serve_candidate items[SERVE_EVICTION_CANDIDATES];
};

void serve_candidates_init(struct serve_candidates *candidates);

/* Connections that are busy count as well. What is beyond SERVE_EVICTION_CANDIDATES is left out. */
void serve_candidates_add(struct serve_candidates *candidates, void *connection, uint64_t address,
                          uint64_t waits);

/* Returns the connection that gives way, which is no candidate any more; NULL: none may be
 * closed. */
void *serve_candidates_take(struct serve_candidates *candidates);

/* The client as a number: an IPv4 address, or the network (/64) of an IPv6 address; 0: neither. */
uint64_t serve_eviction_address(const struct sockaddr *address);

/* In memory that the server's processes share; initially zero. */
struct serve_evictions {
    _Atomic(uint64_t) count;
    _Atomic(uint64_t) report_ns; /* when the next report is due */
};

/* Count one, and report on stderr, at most once a minute, that slots are exhausted. */
void serve_eviction_count(struct serve_evictions *evictions);

#endif
