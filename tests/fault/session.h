/* What clients do while the server's calls fail, and afterwards. */
#ifndef GS_TESTS_FAULT_SESSION_H
#define GS_TESTS_FAULT_SESSION_H

#include "tests/fault/server.h"

#define SESSION_GOOD 40
#define SESSION_MARK "good" /* the user agent of each good request, as it appears in the log */

/* Make the server allocate what it keeps, with more concurrent clients than in the session, all of
 * which read slowly. */
const char *session_warm(const struct server *server);

/* The scripted session: each kind of exchange on a connection of its own. strict: all responses
 * must be correct. Otherwise connections may break, and responses may have status 500 or 503, but
 * no response may be wrong or missing. Returns NULL or the problem. */
const char *session_play(const struct server *server, bool strict);

/* Send SESSION_GOOD requests, all of which must be answered correctly. Returns NULL or the
 * problem. */
const char *session_good(const struct server *server);

/* Send one request, which may fail only if strict is false. Returns NULL or the problem. */
const char *session_ask(const struct server *server, bool strict);

#endif
