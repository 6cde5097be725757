/* Histograms of times and sizes, after Gil Tene's HdrHistogram: any value from 0 to a fixed
 * maximum, each kept to a given number of significant digits, in a memory that does not grow with
 * the number of values.
 *
 *     struct gs_histogram response;
 *     int err = gs_histogram_init(&response, 3600 * GS_SECOND, 3);
 *     gs_histogram_record(&response, end_ns - start_ns);
 *     printf("p99: %" PRIu64 " ns\n", gs_histogram_percentile(&response, 99));
 *     gs_histogram_done(&response);
 *
 * Counts stand in slots: the first ones are 1 wide, and each time the value doubles so does the
 * width, so that the width is never more than 10^-digits of the value. To record is a shift and an
 * addition, about a nanosecond or two. With 3 digits and an hour in nanoseconds the counts take 261
 * KiB, of which only the pages that were used are resident.
 *
 * Nothing is lost silently: a value above the maximum is counted in the last slot and in
 * `saturated`; gs_histogram_max and gs_histogram_mean know even its true value.
 *
 * A histogram is not locked: one kernel thread records into its own, and they are added together
 * afterwards.
 */
#ifndef GOSSAMER_HISTOGRAM_H
#define GOSSAMER_HISTOGRAM_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Its members may be read, and are written by the functions below only. */
struct gs_histogram {
    uint64_t *counts;
    uint32_t slots;
    uint8_t digits;
    uint8_t half_bits; /* log2 of the slots that share a width, above the first ones */
    uint64_t limit;    /* the largest value that has a slot of its own */
    uint64_t count;
    uint64_t saturated; /* of `count`, how many were larger than `limit` */
    uint64_t smallest;  /* UINT64_MAX while count is 0 */
    uint64_t largest;
    uint64_t sum, sum_carries; /* the sum of all values: 128 bits */
};

/* digits: 1 to 5. limit: 2 to INT64_MAX. Returns 0, -EINVAL or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_histogram_init(struct gs_histogram *histogram, uint64_t limit,
                                           int digits);
GS_API void gs_histogram_done(struct gs_histogram *histogram);

/* Forget all values. */
GS_API void gs_histogram_reset(struct gs_histogram *histogram);

GS_API void gs_histogram_record(struct gs_histogram *histogram, uint64_t value);
GS_API void gs_histogram_record_many(struct gs_histogram *histogram, uint64_t value,
                                     uint64_t count);

/* Add all of `from`. Returns 0, or -EINVAL if the two differ in limit or digits. */
GS_API GS_MUST_CHECK int gs_histogram_add(struct gs_histogram *histogram,
                                          const struct gs_histogram *from);

/* The extremes, exact. 0 when nothing was recorded. */
GS_API uint64_t gs_histogram_min(const struct gs_histogram *histogram);
GS_API uint64_t gs_histogram_max(const struct gs_histogram *histogram);

/* Exact. 0 when nothing was recorded. */
GS_API double gs_histogram_mean(const struct gs_histogram *histogram);

/* Within the precision of the slots. */
GS_API double gs_histogram_deviation(const struct gs_histogram *histogram);

/* The value that `percentile` (0 to 100) percent of all values do not exceed: the largest that its
 * slot stands for, or the maximum if that is smaller. 0 when nothing was recorded. */
GS_API uint64_t gs_histogram_percentile(const struct gs_histogram *histogram, double percentile);

/* ---- Iteration over the slots that hold values, from the smallest ----
 *
 *     struct gs_histogram_cursor at = {0};
 *     while (gs_histogram_next(&response, &at))
 *         printf("%" PRIu64 " to %" PRIu64 ": %" PRIu64 "\n", at.lowest, at.highest, at.count);
 */
struct gs_histogram_cursor {
    uint32_t slot; /* the next to look at */
    uint64_t lowest, highest;
    uint64_t count;
    uint64_t total; /* of this slot and all before it */
};
GS_API bool gs_histogram_next(const struct gs_histogram *histogram, struct gs_histogram_cursor *at);

/* ---- HdrHistogram's own formats, for the tools that read them ---- */

/* The percentile distribution: a table of Value, Percentile, TotalCount and 1/(1-Percentile),
 * `ticks` lines for each halving of the distance to 100 % (5 is usual), values divided by `unit`.
 * Returns 0 or -EIO. */
GS_API int gs_histogram_print(const struct gs_histogram *histogram, FILE *file, int ticks,
                              double unit);

/* How many bytes gs_histogram_encode may need. */
GS_API size_t gs_histogram_encoded_bound(const struct gs_histogram *histogram);

/* The V2 encoding, uncompressed, into `bytes` of gs_histogram_encoded_bound. Returns its length. */
GS_API size_t gs_histogram_encode(const struct gs_histogram *histogram, uint8_t *bytes);

#endif
