/* What clients do with the server while its calls fail, and afterwards. */
#ifndef GS_TESTS_FAULT_SESSION_H
#define GS_TESTS_FAULT_SESSION_H

#include "tests/fault/server.h"

#define SESSION_GOOD 100
#define SESSION_MARK "good" /* in the log, of each good request */

/* Fill what the server keeps: more clients at a time than in the session, all of them slow. */
const char *session_warm(const struct server *server);

/* The scripted session: each thing that a client may do, on connections of its own. strict: all
 * must be answered rightly; otherwise connections may break, and answers may be 500 or 503, but
 * nothing may be wrong and nobody may wait in vain. Returns NULL or what went wrong. */
const char *session_play(const struct server *server, bool strict);

/* SESSION_GOOD requests, all answered rightly. */
const char *session_good(const struct server *server);

/* One request, which must be answered unless strict is false. */
const char *session_ask(const struct server *server, bool strict);

#endif
