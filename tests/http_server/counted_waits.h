/* What the server knows of its connections, for programs that are linked with
 * -Wl,--wrap=gs_http_worker_keep. */
#ifndef GS_TESTS_HTTP_SERVER_COUNTED_WAITS_H
#define GS_TESTS_HTTP_SERVER_COUNTED_WAITS_H

#include "http_server/connection.h"
#include "tests/http_server/serving.h"

/* How many waits for each of these have started, since the server was started. */
static atomic_uint waits[GS_HTTP_WAITS];

int __real_gs_http_worker_keep(struct gs_http_connection *connection, enum gs_http_wait waits_for);
int __wrap_gs_http_worker_keep(struct gs_http_connection *connection, enum gs_http_wait waits_for);
int __wrap_gs_http_worker_keep(struct gs_http_connection *connection, enum gs_http_wait waits_for)
{
    bool waits_already = connection->state == GS_HTTP_CONNECTION_WAITING &&
                         connection->waits_for == (unsigned char)waits_for;
    int err = __real_gs_http_worker_keep(connection, waits_for);
    if (!err && !waits_already)
        atomic_fetch_add(&waits[waits_for], 1);
    return err;
}

/* The server knows that connections wait, in the order in which this is awaited. */
static void await_waits(enum gs_http_wait waits_for, unsigned count)
{
    while (atomic_load(&waits[waits_for]) < count)
        gs_thread_sleep(after(GS_MILLISECOND));
}

#endif
