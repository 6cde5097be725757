/* The first and the last answers of a run, which --drop leaves out of the histograms: while the
 * clients come up and go down, the load is not yet, or no longer, the one that is to be measured.
 *
 * Each kernel thread holds back its first K samples, and in a ring its last K; what falls out of
 * the ring is counted. The run's first K are among those that were held back, and so are its last
 * K: when all threads have ended, what was held back is sorted by time, and what lies between is
 * counted after all.
 *
 * Invariants:
 * 1. first_count < keep implies that the ring is empty.
 * 2. A sample is in one place: first, ring or the histograms. */
#ifndef GS_LOAD_SAMPLES_H
#define GS_LOAD_SAMPLES_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_NO_TIME UINT64_MAX

/* Of one request. */
struct load_sample {
    uint64_t end_ns;
    uint64_t response_ns;   /* from when the request was due to the last byte of the answer; in a
                             * closed loop the same as: */
    uint64_t service_ns;    /* from the sending of the request */
    uint64_t first_byte_ns; /* from there to the first byte */
    uint64_t connect_ns;    /* of the connection, if this was its first answer; else
                             * LOAD_NO_TIME */
    uint64_t lag_ns;        /* sent so much later than it could have been; LOAD_NO_TIME in a closed
                             * loop */
};

struct load_samples {
    size_t keep; /* K; 0: nothing is held back */
    struct load_sample *first, *ring;
    size_t first_count, ring_count, ring_next;
};

/* Returns 0 or -ENOMEM. */
GS_MUST_CHECK int gs_load_samples_init(struct load_samples *samples, size_t keep);
void gs_load_samples_done(struct load_samples *samples);

/* Hold the sample back. If another one has to be counted for it, that one is stored, and the result
 * is true. */
bool gs_load_samples_push(struct load_samples *samples, const struct load_sample *sample,
                          struct load_sample *ret_counted);

/* Append all that is held back to `all`, which has room for 2 * keep more. Returns how many that
 * were. */
size_t gs_load_samples_take(const struct load_samples *samples, struct load_sample *all);

/* Sort by time. */
void gs_load_samples_sort(struct load_sample *all, size_t count);

#endif
