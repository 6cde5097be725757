#include "load/metrics.h"

#include <gossamer/clock.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *const gs_load_error_names[LOAD_ERROR_KINDS] = {
    [LOAD_CONNECT] = "connect", [LOAD_TIMEOUT] = "timeout",     [LOAD_RESET] = "reset",
    [LOAD_STATUS] = "status",   [LOAD_LENGTH] = "length",       [LOAD_PARSE] = "parse",
    [LOAD_CLOSED] = "closed",   [LOAD_HANDSHAKE] = "handshake", [LOAD_CERTIFICATE] = "certificate",
    [LOAD_TLS] = "tls",         [LOAD_TRUNCATED] = "truncated",
};

static const uint64_t max_time_ns = 3600 * GS_SECOND;
enum { SIGNIFICANT_DIGITS = 3 };

int gs_load_metrics_init(struct load_metrics *metrics, size_t drop)
{
    *metrics = (struct load_metrics){0};
    int err = gs_load_sample_buffer_init(&metrics->samples, drop);
    for (int i = 0; !err && i < LOAD_TIME_KINDS; i++)
        err = gs_histogram_init(&metrics->times[i], max_time_ns, SIGNIFICANT_DIGITS);
    if (err)
        gs_load_metrics_done(metrics);
    return err;
}

void gs_load_metrics_done(struct load_metrics *metrics)
{
    for (int i = 0; i < LOAD_TIME_KINDS; i++)
        gs_histogram_done(&metrics->times[i]);
    gs_load_sample_buffer_done(&metrics->samples);
}

/* Relaxed: the counters synchronize nothing; other threads only display them. */
static void increment(_Atomic uint64_t *counter)
{
    uint64_t count = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, count + 1, memory_order_relaxed);
}

static void record_end(struct load_metrics *metrics, const struct load_sample *sample)
{
    uint64_t connect_ns = sample->connect_ns == LOAD_NO_TIME ? 0 : sample->connect_ns;
    gs_histogram_record(&metrics->times[LOAD_TIME_TOTAL], connect_ns + sample->service_ns);
    gs_histogram_record(&metrics->times[LOAD_TIME_RESPONSE], sample->response_ns);
    gs_histogram_record(&metrics->times[LOAD_TIME_FIRST_BYTE], sample->first_byte_ns);
    if (sample->send_delay_ns != LOAD_NO_TIME)
        gs_histogram_record(&metrics->times[LOAD_TIME_SERVICE], sample->service_ns);
}

/* Durations that failed requests have, too. */
static void record_start(struct load_metrics *metrics, const struct load_sample *sample)
{
    if (sample->connect_ns != LOAD_NO_TIME)
        gs_histogram_record(&metrics->times[LOAD_TIME_CONNECT], sample->connect_ns);
    if (sample->handshake_ns != LOAD_NO_TIME)
        gs_histogram_record(&metrics->times[LOAD_TIME_HANDSHAKE], sample->handshake_ns);
    if (sample->send_delay_ns != LOAD_NO_TIME)
        gs_histogram_record(&metrics->times[LOAD_TIME_SEND_DELAY], sample->send_delay_ns);
}

static void record_all(struct load_metrics *metrics, const struct load_sample *sample)
{
    record_start(metrics, sample);
    record_end(metrics, sample);
}

void gs_load_metrics_record_response(struct load_metrics *metrics, const struct load_sample *sample)
{
    increment(&metrics->requests);
    metrics->busy_ns += (double)sample->service_ns;
    if (sample->connect_ns != LOAD_NO_TIME)
        metrics->busy_ns += (double)sample->connect_ns;
    if (!metrics->samples.capacity) {
        record_all(metrics, sample);
        return;
    }
    struct load_sample evicted;
    if (gs_load_sample_buffer_push(&metrics->samples, sample, &evicted))
        record_all(metrics, &evicted);
}

void gs_load_metrics_record_error(struct load_metrics *metrics, enum load_error kind,
                                  const struct load_sample *sample)
{
    increment(&metrics->errors[kind]);
    record_start(metrics, sample);
}

void gs_load_waiting_record(struct load_waiting *waiting, uint64_t since_ns, uint64_t now_ns)
{
    uint64_t waited_ns = now_ns > since_ns ? now_ns - since_ns : 0;
    waiting->count++;
    waiting->total_ns += waited_ns;
    if (waited_ns > waiting->longest_ns)
        waiting->longest_ns = waited_ns;
}

void gs_load_metrics_read_counts(const struct load_metrics *metrics, uint64_t *ret_requests,
                                 uint64_t *ret_errors)
{
    *ret_requests = atomic_load_explicit(&metrics->requests, memory_order_relaxed);
    *ret_errors = 0;
    for (int kind = 0; kind < LOAD_ERROR_KINDS; kind++)
        *ret_errors += atomic_load_explicit(&metrics->errors[kind], memory_order_relaxed);
}

uint64_t gs_load_metrics_error_count(const struct load_metrics *metrics)
{
    uint64_t requests, errors;
    gs_load_metrics_read_counts(metrics, &requests, &errors);
    return errors;
}

/* ---- Transfer between processes ---- */

static size_t counts_size(const struct gs_histogram *histogram)
{
    return histogram->buckets * sizeof *histogram->counts;
}

static size_t samples_size(const struct load_sample_buffer *samples)
{
    return 2 * samples->capacity * sizeof *samples->first;
}

size_t gs_load_metrics_export_size(const struct load_metrics *metrics)
{
    size_t size = samples_size(&metrics->samples);
    for (int i = 0; i < LOAD_TIME_KINDS; i++)
        size += counts_size(&metrics->times[i]);
    return size;
}

void gs_load_metrics_export(const struct load_metrics *metrics, void *buffer)
{
    char *to = buffer;
    for (int i = 0; i < LOAD_TIME_KINDS; i++) {
        memcpy(to, metrics->times[i].counts, counts_size(&metrics->times[i]));
        to += counts_size(&metrics->times[i]);
    }
    if (metrics->samples.capacity)
        memcpy(to, metrics->samples.first, samples_size(&metrics->samples));
}

void gs_load_metrics_import(struct load_metrics *metrics, const void *buffer)
{
    const char *from = buffer;
    for (int i = 0; i < LOAD_TIME_KINDS; i++) {
        memcpy(metrics->times[i].counts, from, counts_size(&metrics->times[i]));
        from += counts_size(&metrics->times[i]);
    }
    if (metrics->samples.capacity)
        memcpy(metrics->samples.first, from, samples_size(&metrics->samples));
}

/* ---- Sum ---- */

static void add_waiting(struct load_waiting *sum, const struct load_waiting *waiting)
{
    sum->count += waiting->count;
    sum->total_ns += waiting->total_ns;
    if (waiting->longest_ns > sum->longest_ns)
        sum->longest_ns = waiting->longest_ns;
}

static void add(struct load_metrics *sum, const struct load_metrics *metrics)
{
    /* All histograms have the same parameters, so that adding them cannot fail. */
    for (int i = 0; i < LOAD_TIME_KINDS; i++)
        (void)!gs_histogram_add(&sum->times[i], &metrics->times[i]);
    sum->requests += metrics->requests;
    for (int kind = 0; kind < LOAD_ERROR_KINDS; kind++)
        sum->errors[kind] += metrics->errors[kind];
    for (int status = 0; status < LOAD_STATUSES; status++) {
        sum->statuses[status] += metrics->statuses[status];
        sum->unexpected_statuses[status] += metrics->unexpected_statuses[status];
    }
    sum->bytes += metrics->bytes;
    sum->connections += metrics->connections;
    sum->resumed += metrics->resumed;
    sum->retried += metrics->retried;
    sum->queued += metrics->queued;
    sum->excessive += metrics->excessive;
    sum->busy_ns += metrics->busy_ns;
    add_waiting(&sum->to_connect, &metrics->to_connect);
    add_waiting(&sum->for_response, &metrics->for_response);
    if (metrics->connect_error)
        sum->connect_error = metrics->connect_error;
    if (metrics->parse_reason)
        sum->parse_reason = metrics->parse_reason;
    if (!sum->tls[0])
        memcpy(sum->tls, metrics->tls, sizeof sum->tls);
    if (!sum->tls_reason[0])
        memcpy(sum->tls_reason, metrics->tls_reason, sizeof sum->tls_reason);
}

/* Once sorted, the first and the last `drop` of the buffered samples are those of the whole run,
 * unless it has fewer. */
static void drop_ends(struct load_metrics *sum, struct load_sample *buffered, size_t count,
                      size_t drop)
{
    gs_load_samples_sort(buffered, count);
    if (sum->requests <= 2 * drop) {
        sum->dropped = sum->requests;
        return;
    }
    sum->dropped = 2 * drop;
    for (size_t i = drop; i < count - drop; i++)
        record_all(sum, &buffered[i]);
}

int gs_load_metrics_merge(struct load_metrics *sum, const struct load_metrics *const *all,
                          size_t count)
{
    size_t drop = count ? all[0]->samples.capacity : 0, buffered_count = 0;
    struct load_sample *buffered = calloc(2 * drop * count + 1, sizeof *buffered);
    if (!buffered)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        add(sum, all[i]);
        buffered_count += gs_load_sample_buffer_copy(&all[i]->samples, buffered + buffered_count);
    }
    if (drop)
        drop_ends(sum, buffered, buffered_count, drop);
    free(buffered);
    return 0;
}
