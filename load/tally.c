#include "load/tally.h"

#include <gossamer/clock.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *const gs_load_error_names[LOAD_ERRORS] = {
    [LOAD_CONNECT] = "connect", [LOAD_TIMEOUT] = "timeout", [LOAD_RESET] = "reset",
    [LOAD_STATUS] = "status",   [LOAD_LENGTH] = "length",   [LOAD_PARSE] = "parse",
    [LOAD_CLOSED] = "closed",
};

static const uint64_t longest_ns = 3600 * GS_SECOND;
enum { DIGITS = 3 };

int gs_load_tally_init(struct load_tally *tally, size_t drop)
{
    *tally = (struct load_tally){0};
    int err = gs_load_samples_init(&tally->samples, drop);
    for (int i = 0; !err && i < LOAD_TIMES; i++)
        err = gs_histogram_init(&tally->times[i], longest_ns, DIGITS);
    if (err)
        gs_load_tally_done(tally);
    return err;
}

void gs_load_tally_done(struct load_tally *tally)
{
    for (int i = 0; i < LOAD_TIMES; i++)
        gs_histogram_done(&tally->times[i]);
    gs_load_samples_done(&tally->samples);
}

/* Relaxed: a count for the progress line orders nothing. */
static void add_one(_Atomic uint64_t *counter)
{
    uint64_t count = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, count + 1, memory_order_relaxed);
}

static void record(struct load_tally *tally, const struct load_sample *sample)
{
    gs_histogram_record(&tally->times[LOAD_TIME_RESPONSE], sample->response_ns);
    gs_histogram_record(&tally->times[LOAD_TIME_FIRST_BYTE], sample->first_byte_ns);
    if (sample->lag_ns != LOAD_NO_TIME)
        gs_histogram_record(&tally->times[LOAD_TIME_SERVICE], sample->service_ns);
}

/* Of requests that failed, too. */
static void record_beginning(struct load_tally *tally, const struct load_sample *sample)
{
    if (sample->connect_ns != LOAD_NO_TIME)
        gs_histogram_record(&tally->times[LOAD_TIME_CONNECT], sample->connect_ns);
    if (sample->lag_ns != LOAD_NO_TIME)
        gs_histogram_record(&tally->times[LOAD_TIME_LAG], sample->lag_ns);
}

static void record_whole(struct load_tally *tally, const struct load_sample *sample)
{
    record_beginning(tally, sample);
    record(tally, sample);
}

void gs_load_tally_answer(struct load_tally *tally, const struct load_sample *sample)
{
    add_one(&tally->requests);
    tally->busy_ns += (double)sample->service_ns;
    if (sample->connect_ns != LOAD_NO_TIME)
        tally->busy_ns += (double)sample->connect_ns;
    if (!tally->samples.keep) {
        record_whole(tally, sample);
        return;
    }
    struct load_sample counted;
    if (gs_load_samples_push(&tally->samples, sample, &counted))
        record_whole(tally, &counted);
}

void gs_load_tally_error(struct load_tally *tally, enum load_error kind,
                         const struct load_sample *sample)
{
    add_one(&tally->errors[kind]);
    record_beginning(tally, sample);
}

void gs_load_tally_waiting(struct load_waiting *waiting, uint64_t since_ns, uint64_t now_ns)
{
    uint64_t waited_ns = now_ns > since_ns ? now_ns - since_ns : 0;
    waiting->count++;
    if (waited_ns > waiting->longest_ns)
        waiting->longest_ns = waited_ns;
}

void gs_load_tally_count(const struct load_tally *tally, uint64_t *ret_requests,
                         uint64_t *ret_errors)
{
    *ret_requests = atomic_load_explicit(&tally->requests, memory_order_relaxed);
    *ret_errors = 0;
    for (int kind = 0; kind < LOAD_ERRORS; kind++)
        *ret_errors += atomic_load_explicit(&tally->errors[kind], memory_order_relaxed);
}

uint64_t gs_load_tally_errors(const struct load_tally *tally)
{
    uint64_t requests, errors;
    gs_load_tally_count(tally, &requests, &errors);
    return errors;
}

/* ---- From one process to another ---- */

static size_t counts_size(const struct gs_histogram *histogram)
{
    return histogram->slots * sizeof *histogram->counts;
}

static size_t samples_size(const struct load_samples *samples)
{
    return 2 * samples->keep * sizeof *samples->first;
}

size_t gs_load_tally_store_size(const struct load_tally *tally)
{
    size_t size = samples_size(&tally->samples);
    for (int i = 0; i < LOAD_TIMES; i++)
        size += counts_size(&tally->times[i]);
    return size;
}

void gs_load_tally_put(const struct load_tally *tally, void *store)
{
    char *to = store;
    for (int i = 0; i < LOAD_TIMES; i++) {
        memcpy(to, tally->times[i].counts, counts_size(&tally->times[i]));
        to += counts_size(&tally->times[i]);
    }
    if (tally->samples.keep)
        memcpy(to, tally->samples.first, samples_size(&tally->samples));
}

void gs_load_tally_take(struct load_tally *tally, const void *store)
{
    const char *from = store;
    for (int i = 0; i < LOAD_TIMES; i++) {
        memcpy(tally->times[i].counts, from, counts_size(&tally->times[i]));
        from += counts_size(&tally->times[i]);
    }
    if (tally->samples.keep)
        memcpy(tally->samples.first, from, samples_size(&tally->samples));
}

/* ---- All together ---- */

static void add_waiting(struct load_waiting *sum, const struct load_waiting *waiting)
{
    sum->count += waiting->count;
    if (waiting->longest_ns > sum->longest_ns)
        sum->longest_ns = waiting->longest_ns;
}

static void add(struct load_tally *sum, const struct load_tally *tally)
{
    /* All tallies are of one shape: adding histograms can't fail. */
    for (int i = 0; i < LOAD_TIMES; i++)
        (void)!gs_histogram_add(&sum->times[i], &tally->times[i]);
    sum->requests += tally->requests;
    for (int kind = 0; kind < LOAD_ERRORS; kind++)
        sum->errors[kind] += tally->errors[kind];
    sum->bytes += tally->bytes;
    sum->connections += tally->connections;
    sum->resent += tally->resent;
    sum->queued += tally->queued;
    sum->busy_ns += tally->busy_ns;
    add_waiting(&sum->to_connect, &tally->to_connect);
    add_waiting(&sum->for_answer, &tally->for_answer);
    if (tally->connect_error)
        sum->connect_error = tally->connect_error;
}

/* Of the samples held back, sorted: the first `drop` and the last are the run's, or there are not
 * that many. */
static void drop_ends(struct load_tally *sum, struct load_sample *held, size_t count, size_t drop)
{
    gs_load_samples_sort(held, count);
    if (sum->requests <= 2 * drop) {
        sum->dropped = sum->requests;
        return;
    }
    sum->dropped = 2 * drop;
    for (size_t i = drop; i < count - drop; i++)
        record_whole(sum, &held[i]);
}

int gs_load_tally_merge(struct load_tally *sum, const struct load_tally *const *tallies,
                        size_t count)
{
    size_t drop = count ? tallies[0]->samples.keep : 0, held_count = 0;
    struct load_sample *held = calloc(2 * drop * count + 1, sizeof *held);
    if (!held)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        add(sum, tallies[i]);
        held_count += gs_load_samples_take(&tallies[i]->samples, held + held_count);
    }
    if (drop)
        drop_ends(sum, held, held_count, drop);
    free(held);
    return 0;
}
