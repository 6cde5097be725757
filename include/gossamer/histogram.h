/* Histograms of times and sizes, after Gil Tene's HdrHistogram: they record values from 0 to a
 * fixed maximum with a given number of significant digits. Memory does not grow with the number of
 * values.
 *
 *     struct gs_histogram response;
 *     int err = gs_histogram_init(&response, 3600 * GS_SECOND, 3);
 *     gs_histogram_record(&response, end_ns - start_ns);
 *     printf("p99: %" PRIu64 " ns\n", gs_histogram_percentile(&response, 99));
 *     gs_histogram_done(&response);
 *
 * Values are counted in buckets. The first buckets are 1 wide, and the width doubles each time the
 * value doubles, so that a bucket is never wider than 10^-digits of its values. Recording is a
 * shift and an addition, one or two nanoseconds. With 3 digits and a maximum of one hour in
 * nanoseconds, the counts take 261 KiB, of which only the pages in use are resident.
 *
 * Values above the maximum are counted in the last bucket and in `saturated`; gs_histogram_max and
 * gs_histogram_mean are exact for them, too.
 *
 * Threads: histograms are not locked. Each kernel thread records into its own, and they are added
 * together afterwards.
 */
#ifndef GOSSAMER_HISTOGRAM_H
#define GOSSAMER_HISTOGRAM_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

GS_BEGIN_DECLS

/* ---- Recording: histograms of times and sizes ---- */

/* The members may be read, and are written by the functions below only. */
struct gs_histogram {
    uint64_t *counts;
    uint32_t buckets;
    uint8_t digits;
    uint8_t half_bits; /* log2 of the number of buckets of each width above 1 */
    uint64_t limit;    /* the largest value that is not saturated */
    uint64_t count;
    uint64_t saturated; /* values above `limit`; included in `count` */
    uint64_t min;       /* UINT64_MAX while count is 0 */
    uint64_t max;
    uint64_t sum, sum_high; /* the sum of all values: 128 bits */
};

/* Make the histogram empty. limit: the maximum, 2 to INT64_MAX. digits: the significant digits, 1
 * to 5. Returns 0, -EINVAL (limit or digits is out of range) or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_histogram_init(struct gs_histogram *histogram, uint64_t limit,
                                           int digits);

/* Free the memory of the histogram. */
GS_API void gs_histogram_done(struct gs_histogram *histogram);

/* Remove all values. */
GS_API void gs_histogram_reset(struct gs_histogram *histogram);

/* Add a value, or `count` times the same value. */
GS_API void gs_histogram_record(struct gs_histogram *histogram, uint64_t value);
GS_API void gs_histogram_record_many(struct gs_histogram *histogram, uint64_t value,
                                     uint64_t count);

/* Add all values of `from`. Returns 0, or -EINVAL if their limits or digits differ. */
GS_API GS_MUST_CHECK int gs_histogram_add(struct gs_histogram *histogram,
                                          const struct gs_histogram *from);

/* ---- Results of a histogram ---- */

/* Returns the exact minimum; 0 if the histogram is empty. */
GS_API uint64_t gs_histogram_min(const struct gs_histogram *histogram);

/* Returns the exact maximum; 0 if the histogram is empty. */
GS_API uint64_t gs_histogram_max(const struct gs_histogram *histogram);

/* Returns the exact mean; 0 if the histogram is empty. */
GS_API double gs_histogram_mean(const struct gs_histogram *histogram);

/* Returns the standard deviation, as precise as the buckets are; 0 if the histogram is empty. */
GS_API double gs_histogram_stddev(const struct gs_histogram *histogram);

/* Returns the value that `percentile` (0 to 100) percent of all values do not exceed: the largest
 * value of its bucket, or the maximum if that is smaller; 0 if the histogram is empty. */
GS_API uint64_t gs_histogram_percentile(const struct gs_histogram *histogram, double percentile);

/* ---- Iteration over the buckets of a histogram that are not empty, from the lowest ----
 *
 *     struct gs_histogram_cursor c = {0};
 *     while (gs_histogram_next(&response, &c))
 *         printf("%" PRIu64 " to %" PRIu64 ": %" PRIu64 "\n", c.lowest, c.highest, c.count);
 */
struct gs_histogram_cursor {
    uint32_t bucket; /* the next one to visit */
    uint64_t lowest, highest;
    uint64_t count;
    uint64_t total; /* the count of this bucket and all before it */
};

/* Proceed to the next bucket, or to the first one if the cursor is all zero. Returns false if none
 * is left. */
GS_API bool gs_histogram_next(const struct gs_histogram *histogram,
                              struct gs_histogram_cursor *cursor);

/* ---- Output of a histogram in HdrHistogram's formats ----
 *
 *     err = gs_histogram_print(&response, stdout, 5, GS_MILLISECOND);
 */

/* Print the percentile distribution: a table of Value, Percentile, TotalCount and 1/(1-Percentile)
 * with `ticks` lines for each halving of the distance to 100 % (5 is common). Values are divided by
 * `unit`. Returns 0 or -EIO (the file has an error). */
GS_API int gs_histogram_print(const struct gs_histogram *histogram, FILE *file, int ticks,
                              double unit);

/* Returns the maximum number of bytes that gs_histogram_encode writes. */
GS_API size_t gs_histogram_encoded_bound(const struct gs_histogram *histogram);

/* Write the V2 encoding, uncompressed, into gs_histogram_encoded_bound bytes. Returns its
 * length. */
GS_API size_t gs_histogram_encode(const struct gs_histogram *histogram, uint8_t *bytes);

GS_END_DECLS

#endif
