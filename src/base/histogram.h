/* The buckets of a histogram, for the files that write histograms. */
#ifndef GS_BASE_HISTOGRAM_H
#define GS_BASE_HISTOGRAM_H

#include <gossamer/histogram.h>

/* Returns the smallest value of the bucket, and its width in values. */
uint64_t gs_histogram_bucket_lowest(const struct gs_histogram *histogram, uint32_t bucket,
                                    uint64_t *ret_width);

/* Returns the number of buckets up to the last one that is not empty. */
uint32_t gs_histogram_used(const struct gs_histogram *histogram);

#endif
