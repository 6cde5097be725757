/* Where the server listens: at the addresses of --listen, or at those of sockets that it has
 * inherited (serve/accept/inherited.h).
 *
 * An address whose sockets are inherited has no others: more workers share them, fewer have several
 * each. To close one of several sockets of an address (SO_REUSEPORT) would reset the connections in
 * its accept queue. */
#ifndef GS_SERVE_LISTENING_H
#define GS_SERVE_LISTENING_H

#include "serve/operations/server.h"

/* Find the addresses, then listen at them: two steps, between which other things are opened.
 * Return 0, or -errno after one line on stderr. What was opened is closed by
 * serve_listening_done. */
GS_MUST_CHECK int serve_listening_init(struct serve_server *server);
GS_MUST_CHECK int serve_listening_start(struct serve_server *server);
void serve_listening_done(struct serve_server *server);

/* Remove the files of Unix sockets, unless others listen there. */
void serve_listening_remove_files(struct serve_server *server);

#endif
