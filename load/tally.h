/* What one worker's clients saw, and, added together, all of them. */
#ifndef GS_LOAD_TALLY_H
#define GS_LOAD_TALLY_H

#include "load/samples.h"

#include <gossamer/histogram.h>

/* How a request can fail. */
enum load_error {
    LOAD_CONNECT, /* no connection could be made */
    LOAD_TIMEOUT, /* the connection or the answer took longer than --timeout */
    LOAD_RESET,   /* the connection broke */
    LOAD_STATUS,  /* the answer has a wrong status */
    LOAD_LENGTH,  /* the answer's body has a wrong length */
    LOAD_PARSE,   /* the answer is not HTTP */
    LOAD_CLOSED,  /* the server closed before the end of the answer */
    LOAD_ERRORS,
    LOAD_RIGHT = LOAD_ERRORS, /* it did not */
};

/* The times of a request, as in struct load_sample. In a closed loop there is no lag, and the
 * service times are the response times: they are counted once. */
enum load_time {
    LOAD_TIME_CONNECT,
    LOAD_TIME_FIRST_BYTE,
    LOAD_TIME_SERVICE,
    LOAD_TIME_RESPONSE,
    LOAD_TIME_LAG,
    LOAD_TIMES,
};

extern const char *const gs_load_error_names[LOAD_ERRORS];

/* Requests that the end of the run cut off. They are in no histogram: whoever waits for longest would
 * be missed otherwise. */
struct load_waiting {
    uint64_t count, longest_ns;
};

/* `requests` and `errors` are written by the thread that owns the tally alone, and may be read by
 * others while it runs, with gs_load_tally_count; the rest only afterwards. */
struct load_tally {
    _Atomic uint64_t requests; /* answered, and rightly */
    _Atomic uint64_t errors[LOAD_ERRORS];
    uint64_t bytes;       /* received, header included */
    uint64_t connections; /* made */
    uint64_t resent;      /* requests sent again: the server had closed the kept connection */
    uint64_t queued;      /* requests that were due when all connections were busy */
    uint64_t dropped;     /* answers that --drop left out of the histograms */
    struct load_waiting to_connect, for_answer;
    double busy_ns;    /* sum of all connection and service times, dropped or not */
    int connect_error; /* why the last connection failed: -errno */
    struct gs_histogram times[LOAD_TIMES]; /* ns */
    struct load_samples samples;
};

/* drop: see samples.h. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_load_tally_init(struct load_tally *tally, size_t drop);
void gs_load_tally_done(struct load_tally *tally);

void gs_load_tally_answer(struct load_tally *tally, const struct load_sample *sample);

/* Of the sample, connect_ns and lag_ns are those of the request that failed. */
void gs_load_tally_error(struct load_tally *tally, enum load_error kind,
                         const struct load_sample *sample);

void gs_load_tally_waiting(struct load_waiting *waiting, uint64_t since_ns, uint64_t now_ns);

/* From any thread: how many requests were answered, and how many failed. */
void gs_load_tally_count(const struct load_tally *tally, uint64_t *ret_requests,
                         uint64_t *ret_errors);

uint64_t gs_load_tally_errors(const struct load_tally *tally);

/* A tally that stands in memory that processes share, but was made by one of them before it made the
 * others: what it points to is of each process alone. The one that counted puts it in a store of
 * gs_load_tally_store_size bytes, shared as well and zeroed at first, and the other takes it out. */
size_t gs_load_tally_store_size(const struct load_tally *tally);
void gs_load_tally_put(const struct load_tally *tally, void *store);
void gs_load_tally_take(struct load_tally *tally, const void *store);

/* Add the tallies of all threads to `sum`, a fresh one, and drop the first and last answers of all.
 * Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_load_tally_merge(struct load_tally *sum,
                                      const struct load_tally *const *tallies, size_t count);

#endif
