/* A request and its response, of any version of HTTP: what is expected of it, and its record. */
#ifndef GS_LOAD_EXCHANGE_H
#define GS_LOAD_EXCHANGE_H

#include "load/connection.h"

struct load_exchange {
    size_t request;      /* index in the requests of the target */
    bool is_measured;    /* the request started in the measured time */
    bool has_excess;     /* bytes came after the response */
    unsigned status;     /* of the response, once it is complete */
    uint64_t body_bytes; /* likewise */
    struct load_timestamps times;
};

/* Start with the next request of the target. */
void gs_load_exchange_start(struct load_exchange *exchange, struct load_worker *worker,
                            uint64_t now_ns);

/* The first byte of the response has arrived. */
void gs_load_exchange_first_byte(struct load_exchange *exchange, struct load_worker *worker,
                                 uint64_t now_ns);

/* Returns whether the complete response is the one that is expected: LOAD_OK, LOAD_STATUS or
 * LOAD_LENGTH. */
enum load_error gs_load_exchange_check(const struct load_exchange *exchange,
                                       struct load_worker *worker);

/* The request is sent again on another connection. */
void gs_load_exchange_retry(const struct load_exchange *exchange, struct load_worker *worker);

/* Count and log the outcome; times.end_ns is set after an error. The first outcome on a connection
 * includes the time to connect. */
void gs_load_exchange_record(struct load_exchange *exchange, struct load_connection *connection,
                             enum load_error error);

/* Returns the pause after a request of a closed loop that ended so. */
uint64_t gs_load_pause_ns(const struct load_settings *settings, enum load_error error);

#endif
