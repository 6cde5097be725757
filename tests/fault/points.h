/* Fault points: each call that a run makes, with each way in which it can fail. */
#ifndef GS_TESTS_FAULT_POINTS_H
#define GS_TESTS_FAULT_POINTS_H

#include "tests/fault/server.h"

/* A server that serves from its cache, or one that has none. */
extern const char *const points_with_cache[], *const points_without_cache[];

/* Start a server that has done all of the session before, so that it keeps whatever it keeps.
 * Returns NULL or the problem. */
const char *points_start(struct server *server, const char *const *words);

/* Fail the n-th call of the session, for every n that the session reaches; then five calls on end,
 * from every third on. After each the server must answer good requests and hold what it held.
 * Returns NULL or what it did not survive. */
const char *points_survive(const struct server *server, const struct fault *fault);

/* The same for the whole life of a server: it starts, answers, opens its log anew and ends; or it
 * ends at once, saying why in one line. Nothing may be left. */
const char *points_survive_life(const struct fault *fault);

/* How many there were, all told. */
unsigned points_survived(void);

#endif
