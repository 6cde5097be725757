#include "serve/accept/eviction.h"

#include "serve/log/error_log.h"

#include <gossamer/clock.h>
#include <netinet/in.h>
#include <string.h>

#define REPORT_NS (60 * GS_SECOND)
#define HANDSHAKE_NS GS_SECOND

void serve_candidates_init(struct serve_candidates *candidates)
{
    candidates->count = 0;
    candidates->now_ns = gs_clock_now();
    candidates->crowd_before_ns = candidates->before_ns = UINT64_MAX;
}

/* An honest client needs two round trips for a handshake. While it has that time, it does not give
 * way to others like it. */
static uint64_t judge(const struct serve_candidates *candidates, uint64_t waits)
{
    uint64_t since_ns = serve_waits_since(waits);
    bool is_young = waits != SERVE_BUSY &&
                    waits >> SERVE_WAIT_KIND_SHIFT == SERVE_WAITS_FOR_HANDSHAKE &&
                    since_ns + HANDSHAKE_NS >= candidates->now_ns;
    return is_young ? serve_waits(SERVE_WAITS_FOR_HEAD, since_ns) : waits;
}

void serve_candidates_add(struct serve_candidates *candidates, void *connection, uint64_t address,
                          uint64_t waits)
{
    if (candidates->count < SERVE_EVICTION_CANDIDATES)
        candidates->items[candidates->count++] = (struct serve_candidate){
            .connection = connection, .address = address, .waits = judge(candidates, waits)};
}

/* ---- How many have the same address: an open-addressing hash table ---- */

#define BUCKET_BITS 9
#define BUCKETS (1u << BUCKET_BITS)
#define NONE UINT16_MAX

static unsigned bucket_of(uint64_t address)
{
    return (unsigned)(address * 0x9e3779b97f4a7c15u >> (64 - BUCKET_BITS));
}

/* Fills `first` and `same`. Returns how many addresses there are. */
static unsigned count_addresses(struct serve_candidates *candidates)
{
    uint16_t buckets[BUCKETS];
    struct serve_candidate *items = candidates->items;
    unsigned distinct = 0;
    memset(buckets, 0xff, sizeof buckets);
    for (unsigned i = 0; i < candidates->count; i++) {
        unsigned at = bucket_of(items[i].address);
        while (buckets[at] != NONE && items[buckets[at]].address != items[i].address)
            at = (at + 1) % BUCKETS;
        if (buckets[at] == NONE) {
            buckets[at] = (uint16_t)i;
            items[i].same = 0;
            distinct++;
        }
        items[i].first = buckets[at];
        items[buckets[at]].same++;
    }
    return distinct;
}

_Static_assert(BUCKETS >= 2 * SERVE_EVICTION_CANDIDATES, "a search of the table must end");

static bool may_give_way(const struct serve_candidate *item, uint64_t before_ns)
{
    return item->waits != SERVE_BUSY && serve_waits_since(item->waits) < before_ns;
}

/* Of the addresses with a connection that may give way: the most connections of one. */
static unsigned largest_crowd(const struct serve_candidates *candidates)
{
    const struct serve_candidate *items = candidates->items;
    unsigned most = 0;
    for (unsigned i = 0; i < candidates->count; i++)
        if (may_give_way(&items[i], candidates->crowd_before_ns) &&
            items[items[i].first].same > most)
            most = items[items[i].first].same;
    return most;
}

void *serve_candidates_take(struct serve_candidates *candidates)
{
    struct serve_candidate *items = candidates->items, *best = NULL;
    unsigned distinct = count_addresses(candidates), most = largest_crowd(candidates);
    bool is_crowd = distinct && most > (candidates->count + distinct - 1) / distinct;
    uint64_t before_ns = is_crowd ? candidates->crowd_before_ns : candidates->before_ns;
    for (unsigned i = 0; i < candidates->count; i++)
        if (may_give_way(&items[i], before_ns) &&
            (!is_crowd || items[items[i].first].same == most) &&
            (!best || items[i].waits < best->waits))
            best = &items[i];
    if (!best)
        return NULL;
    void *connection = best->connection;
    *best = items[--candidates->count];
    return connection;
}

uint64_t serve_eviction_address(const struct sockaddr *address)
{
    uint64_t network = 0;
    uint32_t host = 0;
    if (address->sa_family == AF_INET) {
        host = ((const struct sockaddr_in *)address)->sin_addr.s_addr;
    } else if (address->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(six))
            memcpy(&host, &six->s6_addr[12], sizeof host);
        else
            memcpy(&network, six, sizeof network);
    }
    return host ? host : network;
}

void serve_eviction_count(struct serve_evictions *evictions)
{
    uint64_t count = atomic_fetch_add(&evictions->count, 1) + 1;
    uint64_t now_ns = gs_clock_now(), due_ns = atomic_load(&evictions->report_ns);
    if (now_ns >= due_ns &&
        atomic_compare_exchange_strong(&evictions->report_ns, &due_ns, now_ns + REPORT_NS))
        serve_warn("no more connections may be open, idle ones are closed for others "
                   "(%llu until now)",
                   (unsigned long long)count);
}
