/* The metrics of one worker's requests: counters and histograms, and their sum over all workers. */
#ifndef GS_LOAD_METRICS_H
#define GS_LOAD_METRICS_H

#include "load/samples.h"

#include <gossamer/histogram.h>
#include <gossamer/tls_context.h>

/* Why a request failed. */
enum load_error {
    LOAD_CONNECT,     /* the connection could not be established */
    LOAD_TIMEOUT,     /* connecting, or the response, took longer than --timeout */
    LOAD_RESET,       /* the connection was reset */
    LOAD_STATUS,      /* unexpected status */
    LOAD_LENGTH,      /* unexpected length of the body */
    LOAD_PARSE,       /* the response is not valid HTTP */
    LOAD_CLOSED,      /* the server closed the connection before the end of the response */
    LOAD_HANDSHAKE,   /* the TLS handshake failed, except by the server's certificate */
    LOAD_CERTIFICATE, /* the server's certificate cannot be trusted */
    LOAD_TLS,         /* TLS failed after the handshake */
    LOAD_TRUNCATED,   /* a body without a length ended without the end of TLS: it may be cut off */
    LOAD_ERROR_KINDS,
    LOAD_OK = LOAD_ERROR_KINDS, /* no error */
};

/* The durations of a request, as in struct load_sample. In a closed loop, SERVICE and SEND_DELAY
 * are not recorded: the service times are the response times. */
enum load_time {
    LOAD_TIME_CONNECT,
    LOAD_TIME_HANDSHAKE,
    LOAD_TIME_FIRST_BYTE,
    LOAD_TIME_SERVICE,
    LOAD_TIME_RESPONSE,
    LOAD_TIME_SEND_DELAY,
    LOAD_TIME_TOTAL, /* connecting, if the request did, and service */
    LOAD_TIME_KINDS,
};

/* Statuses have three digits. */
enum { LOAD_STATUSES = 1000 };

extern const char *const gs_load_error_names[LOAD_ERROR_KINDS];

/* Requests that were in flight when the run ended. They are in no histogram, which would otherwise
 * hide the longest waits. */
struct load_waiting {
    uint64_t count, longest_ns, total_ns;
};

/* Only the owning thread writes. Other threads may read `requests` and `errors` meanwhile, with
 * gs_load_metrics_read_counts; the other members only after the run. */
struct load_metrics {
    _Atomic uint64_t requests; /* with a correct response */
    _Atomic uint64_t errors[LOAD_ERROR_KINDS];
    uint64_t statuses[LOAD_STATUSES];            /* of correct responses */
    uint64_t unexpected_statuses[LOAD_STATUSES]; /* add up to errors[LOAD_STATUS] */
    uint64_t bytes;                              /* received, headers included */
    uint64_t connections;                        /* established */
    uint64_t resumed;   /* connections that took up an earlier TLS session */
    uint64_t retried;   /* requests sent again as the server had closed the reused connection */
    uint64_t queued;    /* requests scheduled while all connections were busy */
    uint64_t excessive; /* responses with bytes after their end */
    uint64_t dropped;   /* responses that --drop excluded from the histograms */
    struct load_waiting to_connect, for_response;
    double busy_ns;    /* sum of all connect and service times, including dropped responses */
    int connect_error; /* -errno of the last connection that failed */
    const char
        *parse_reason; /* of the last error of kind LOAD_PARSE; a constant, in all processes */
    char tls[64];      /* version and cipher of the first connection; "": none */
    char tls_reason[GS_TLS_TEXT];               /* of the first error of TLS; "": none */
    struct gs_histogram times[LOAD_TIME_KINDS]; /* ns */
    struct load_sample_buffer samples;
};

/* drop: see struct load_sample_buffer. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_load_metrics_init(struct load_metrics *metrics, size_t drop);
void gs_load_metrics_done(struct load_metrics *metrics);

void gs_load_metrics_record_response(struct load_metrics *metrics,
                                     const struct load_sample *sample);

/* Only connect_ns and send_delay_ns of the sample are used. */
void gs_load_metrics_record_error(struct load_metrics *metrics, enum load_error kind,
                                  const struct load_sample *sample);

void gs_load_waiting_record(struct load_waiting *waiting, uint64_t since_ns, uint64_t now_ns);

/* Read the number of successful and of failed requests, from any thread. */
void gs_load_metrics_read_counts(const struct load_metrics *metrics, uint64_t *ret_requests,
                                 uint64_t *ret_errors);

uint64_t gs_load_metrics_error_count(const struct load_metrics *metrics);

/* Transfer between processes. The struct itself is in memory that the processes share, but the
 * arrays that it points to were allocated before fork and are private to each process. The child
 * exports its arrays to a shared buffer of gs_load_metrics_export_size bytes, and the parent
 * imports them. */
size_t gs_load_metrics_export_size(const struct load_metrics *metrics);
void gs_load_metrics_export(const struct load_metrics *metrics, void *buffer);
void gs_load_metrics_import(struct load_metrics *metrics, const void *buffer);

/* Add the metrics of all workers to `sum`, which is newly initialized, and drop the first and last
 * responses of the run. Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_load_metrics_merge(struct load_metrics *sum,
                                        const struct load_metrics *const *all, size_t count);

#endif
