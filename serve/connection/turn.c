#include "serve/connection/turn.h"

#include "http/http2.h"
#include "serve/connection/tls.h"

#include <gossamer/clock.h>

/* To free a stream counts as much as a short request. */
#define STREAM_BYTES 32

/* What this kernel thread has done since it looked for events. The functions that use it are not
 * inline: a user-level thread may be on another worker than at its last call. */
static _Thread_local struct {
    uint64_t look, handshakes_ns;
    size_t http2_bytes;
} turn;

static bool handshake_must_wait(const struct serve_connection *connection, uint64_t looked_ns)
{
    uint64_t spent_ns = turn.handshakes_ns;
    if (!spent_ns || (connection->tls && spent_ns < SERVE_TURN_HANDSHAKES_NS))
        return false;
    uint64_t now_ns = gs_clock_now();
    uint64_t since_ns = now_ns > looked_ns ? now_ns - looked_ns : 0;
    return since_ns < 2 * spent_ns;
}

__attribute__((noinline)) bool serve_turn_must_wait(const struct serve_connection *connection,
                                                    uint64_t look, uint64_t looked_ns)
{
    if (turn.look != look) {
        turn.look = look;
        turn.handshakes_ns = turn.http2_bytes = 0;
    }
    if (connection->is_tls && serve_tls_makes_handshake(connection))
        return handshake_must_wait(connection, looked_ns);
    return turn.http2_bytes >= SERVE_TURN_HTTP2_BYTES &&
           (gs_http2_speaks(&connection->http) || !connection->has_answered);
}

__attribute__((noinline)) void serve_turn_made_handshake(uint64_t ns)
{
    turn.handshakes_ns += ns;
}

__attribute__((noinline)) void serve_turn_took_http2(size_t bytes, uint32_t streams)
{
    turn.http2_bytes += bytes + (size_t)streams * STREAM_BYTES;
}
