/* Watches, in the loop of the main thread, the connections of a table: while no more can be open
 * and clients wait in the accept queues, those that have waited longest for their client are
 * closed. */
#ifndef GS_SERVE_TABLE_EVICTOR_H
#define GS_SERVE_TABLE_EVICTOR_H

#include "serve/operations/server.h"

#include <gossamer/loop.h>

/* In the caller's storage, valid as long as the loop runs; the members are private. */
struct serve_table_evictor {
    struct serve_server *server;
    struct gs_io full;
    struct gs_timer again; /* always active, so that setting it needs no memory */
};

/* Does nothing if the server has no table. Returns 0 or -errno. */
GS_MUST_CHECK int serve_table_evictor_start(struct serve_table_evictor *evictor,
                                            struct serve_server *server, struct gs_loop *loop);

#endif
