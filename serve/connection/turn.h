/* Whose turn comes later, where a kernel thread has many connections. A step of a TLS handshake
 * takes a fraction of a millisecond, and so does what a session of HTTP/2 asks for at once, or
 * leaves open at its end; and all others wait as long. So a kernel thread does such work each time
 * when it has looked for events, and more only within these limits:
 *
 *   - the first step of a handshake, which takes longest, while all else has taken more time;
 *   - its later steps too while handshakes have taken less than SERVE_TURN_HANDSHAKES_NS, so that
 *     few handshakes, each of which needs 44 KB, are half-way at a time;
 *   - sessions of HTTP/2, and connections that have not said what they speak, while sessions have
 *     received less than SERVE_TURN_HTTP2_BYTES: the frames of some 100 requests.
 *
 * Any kernel thread; each counts by itself. */
#ifndef GS_SERVE_TURN_H
#define GS_SERVE_TURN_H

#include "serve/connection/connection.h"

#define SERVE_TURN_HANDSHAKES_NS (GS_MILLISECOND / 2)
#define SERVE_TURN_HTTP2_BYTES 4096u

/* Whether the connection, which has received something, must wait for another turn. look: changes
 * when the kernel thread looks for events; looked_ns: when it did. */
bool serve_turn_must_wait(const struct serve_connection *connection, uint64_t look,
                          uint64_t looked_ns);

/* A step of a handshake has taken so long. */
void serve_turn_made_handshake(uint64_t ns);

/* A session of HTTP/2 has received so many bytes, or is freed with so many open streams. */
void serve_turn_took_http2(size_t bytes, uint32_t streams);

#endif
