#include "load/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int gs_load_samples_init(struct load_samples *samples, size_t keep)
{
    *samples = (struct load_samples){.keep = keep};
    if (!keep)
        return 0;
    samples->first = calloc(2 * keep, sizeof *samples->first);
    if (!samples->first)
        return -ENOMEM;
    samples->ring = samples->first + keep;
    return 0;
}

void gs_load_samples_done(struct load_samples *samples)
{
    free(samples->first);
    *samples = (struct load_samples){0};
}

bool gs_load_samples_push(struct load_samples *samples, const struct load_sample *sample,
                          struct load_sample *ret_counted)
{
    if (samples->first_count < samples->keep) {
        samples->first[samples->first_count++] = *sample;
        return false;
    }
    bool is_full = samples->ring_count == samples->keep;
    if (is_full)
        *ret_counted = samples->ring[samples->ring_next];
    else
        samples->ring_count++;
    samples->ring[samples->ring_next] = *sample;
    samples->ring_next = samples->ring_next + 1 == samples->keep ? 0 : samples->ring_next + 1;
    return is_full;
}

size_t gs_load_samples_take(const struct load_samples *samples, struct load_sample *all)
{
    if (!samples->keep)
        return 0;
    memcpy(all, samples->first, samples->first_count * sizeof *all);
    memcpy(all + samples->first_count, samples->ring, samples->ring_count * sizeof *all);
    return samples->first_count + samples->ring_count;
}

static int by_end(const void *a, const void *b)
{
    const struct load_sample *left = a, *right = b;
    return left->end_ns < right->end_ns ? -1 : left->end_ns > right->end_ns;
}

void gs_load_samples_sort(struct load_sample *all, size_t count)
{
    qsort(all, count, sizeof *all, by_end);
}
