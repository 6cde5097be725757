/* Connections that are closed to make room for others: when all slots are taken and a client waits
 * in the accept queue, idle connections give way, those first that have been idle longest; then
 * those that wait for the rest of a request's head; then those whose last answer was sent, and
 * which only wait for the client to close; the oldest first. */
#ifndef GS_SERVE_EVICTION_H
#define GS_SERVE_EVICTION_H

#include <stdatomic.h>
#include <stdint.h>

/* So many connections are compared at most, so that a choice among many stays cheap. */
#define SERVE_EVICTION_CANDIDATES 256

/* In memory that the server's processes share; initially zero. */
struct serve_evictions {
    _Atomic(uint64_t) count;
    _Atomic(uint64_t) report_ns; /* when the next report is due */
};

/* Count one, and report on stderr, at most once a minute, that slots are exhausted. */
void serve_eviction_count(struct serve_evictions *evictions);

#endif
