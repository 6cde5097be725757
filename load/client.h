/* The life of one simulated client:
 *
 *                    a kept connection was closed before the answer began: send again
 *                        +------------------------------------------------------------------+
 *                        v                                                                  |
 *     RESTING --no--> CONNECTING --send--> WAITING --answer--> judged, counted --> RESTING  |
 *        |  connection                     ^     |                (no think time: at once)  |
 *        +------------- connected ---------+     +------------------------------------------+
 *        |                                 |
 *        +--> RETIRED: no request is left  +-- any error: counted, connection closed --> RESTING
 *
 * Times are those of the system calls: a connection is timed from connect until the first send
 * succeeds, an answer from before the send to after the receive that brought its last byte. A
 * client that rests notices when the server closes. */
#ifndef GS_LOAD_CLIENT_H
#define GS_LOAD_CLIENT_H

#include "http/response.h"

#include <gossamer/loop.h>

struct load_worker;

/* Zeroed memory, then gs_load_client_start. */
struct load_client {
    struct gs_io io;
    struct gs_timer timer; /* active unless retired: the end of the rest, or the timeout */
    struct load_worker *worker;
    int fd; /* -1: not connected */
    uint8_t state;
    bool is_counted; /* the request was begun in the measured time */
    bool is_unsent;  /* a part of the request is left to be sent */
    size_t request;  /* index in the target's */
    size_t sent;
    uint64_t on_connection; /* answers so far */
    uint64_t connect_begun_ns;
    uint64_t connect_ns; /* of a connection whose first answer is awaited; else UINT64_MAX */
    uint64_t request_ns, first_byte_ns;
    struct gs_response response;
};

/* The first request begins in the next iteration. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_load_client_start(struct load_client *client, struct load_worker *worker);

/* Close the connection, whatever goes on. */
void gs_load_client_stop(struct load_client *client);

#endif
