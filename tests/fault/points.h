/* Fault points: each call that a run makes, combined with each of its possible failures. */
#ifndef GS_TESTS_FAULT_POINTS_H
#define GS_TESTS_FAULT_POINTS_H

#include "tests/fault/server.h"

/* Arguments for servers with a page cache and without one. */
extern const char *const points_with_cache[], *const points_without_cache[];

/* Start a server and run the session twice without faults, so that everything which the server
 * keeps is allocated. Returns NULL or the problem. */
const char *points_start(struct server *server, const char *const *arguments);

/* The i-th fault: let the n-th call of the session fail, for every n that the session reaches; then
 * let five successive calls fail, beginning with every third one. An error that is like one of the
 * faults before it, which have been survived, is injected only once a run, into the first calls and
 * one in seven of the others, unless the environment has GOSSAMER_FAULTS=all. After each run the
 * server must respond to good requests and have no more allocations and descriptors than before.
 * Returns NULL or the problem. */
const char *points_survive(const struct server *server, const struct fault *faults, size_t i);

/* The same for the whole life of a server: it starts, responds, reopens its log and stops, or it
 * exits at once with a message of one line. No allocation or descriptor may be left. Returns NULL
 * or the problem. */
const char *points_survive_life(const struct fault *fault);

/* Returns the number of fault points so far. */
unsigned points_survived(void);

#endif
