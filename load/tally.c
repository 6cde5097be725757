#include "load/tally.h"

#include <gossamer/clock.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

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
    int err = gs_histogram_init(&tally->response, longest_ns, DIGITS);
    if (!err)
        err = gs_histogram_init(&tally->first_byte, longest_ns, DIGITS);
    if (!err)
        err = gs_histogram_init(&tally->connect, longest_ns, DIGITS);
    if (!err)
        err = gs_load_samples_init(&tally->samples, drop);
    if (err)
        gs_load_tally_done(tally);
    return err;
}

void gs_load_tally_done(struct load_tally *tally)
{
    gs_histogram_done(&tally->response);
    gs_histogram_done(&tally->first_byte);
    gs_histogram_done(&tally->connect);
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
    gs_histogram_record(&tally->response, sample->response_ns);
    gs_histogram_record(&tally->first_byte, sample->first_byte_ns);
    if (sample->connect_ns != UINT64_MAX)
        gs_histogram_record(&tally->connect, sample->connect_ns);
}

void gs_load_tally_answer(struct load_tally *tally, const struct load_sample *sample)
{
    add_one(&tally->requests);
    tally->service_ns += (double)sample->response_ns;
    if (sample->connect_ns != UINT64_MAX)
        tally->service_ns += (double)sample->connect_ns;
    if (!tally->samples.keep) {
        record(tally, sample);
        return;
    }
    struct load_sample counted;
    if (gs_load_samples_push(&tally->samples, sample, &counted))
        record(tally, &counted);
}

void gs_load_tally_error(struct load_tally *tally, enum load_error kind, uint64_t connect_ns)
{
    add_one(&tally->errors[kind]);
    if (connect_ns != UINT64_MAX)
        gs_histogram_record(&tally->connect, connect_ns);
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

static void add(struct load_tally *sum, const struct load_tally *tally)
{
    /* All tallies are of one shape: adding histograms can't fail. */
    (void)!gs_histogram_add(&sum->response, &tally->response);
    (void)!gs_histogram_add(&sum->first_byte, &tally->first_byte);
    (void)!gs_histogram_add(&sum->connect, &tally->connect);
    sum->requests += tally->requests;
    for (int kind = 0; kind < LOAD_ERRORS; kind++)
        sum->errors[kind] += tally->errors[kind];
    sum->bytes += tally->bytes;
    sum->connections += tally->connections;
    sum->resent += tally->resent;
    sum->service_ns += tally->service_ns;
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
        record(sum, &held[i]);
}

int gs_load_tally_merge(struct load_tally *sum, struct load_tally *const *tallies, size_t count)
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
