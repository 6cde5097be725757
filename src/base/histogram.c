#include "base/histogram.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 5 };

/* Buckets of width 1 cover at least 2 * 10^digits values, rounded up to a power of two. Each
 * further doubling of the value has half as many buckets. */
static uint8_t half_bits_for(int digits)
{
    uint64_t exact = 2;
    for (int i = 0; i < digits; i++)
        exact *= 10;
    return (uint8_t)(63 - __builtin_clzll(exact));
}

static uint32_t bucket_of(const struct gs_histogram *histogram, uint64_t value)
{
    unsigned half_bits = histogram->half_bits;
    uint64_t exact = ((uint64_t)2 << half_bits) - 1;
    unsigned shift = 63 - half_bits - (unsigned)__builtin_clzll(value | exact);
    return (uint32_t)(((uint64_t)shift << half_bits) + (value >> shift));
}

uint64_t gs_histogram_bucket_lowest(const struct gs_histogram *histogram, uint32_t bucket,
                                    uint64_t *ret_width)
{
    unsigned half_bits = histogram->half_bits;
    unsigned shift = bucket >> half_bits;
    shift -= shift > 0;
    *ret_width = (uint64_t)1 << shift;
    return (bucket - ((uint64_t)shift << half_bits)) << shift;
}

uint32_t gs_histogram_used(const struct gs_histogram *histogram)
{
    if (!histogram->count)
        return 0;
    uint64_t top = histogram->max < histogram->limit ? histogram->max : histogram->limit;
    return bucket_of(histogram, top) + 1;
}

int gs_histogram_init(struct gs_histogram *histogram, uint64_t limit, int digits)
{
    if (digits < 1 || digits > DIGITS_MAX || limit < 2 || limit > INT64_MAX)
        return -EINVAL;
    struct gs_histogram result = {.digits = (uint8_t)digits,
                                  .half_bits = half_bits_for(digits),
                                  .limit = limit,
                                  .min = UINT64_MAX};
    result.buckets = bucket_of(&result, limit) + 1;
    result.counts = calloc(result.buckets, sizeof *result.counts);
    if (!result.counts)
        return -ENOMEM;
    *histogram = result;
    return 0;
}

void gs_histogram_done(struct gs_histogram *histogram)
{
    free(histogram->counts);
    histogram->counts = NULL;
}

void gs_histogram_reset(struct gs_histogram *histogram)
{
    memset(histogram->counts, 0, gs_histogram_used(histogram) * sizeof *histogram->counts);
    histogram->count = histogram->saturated = histogram->max = 0;
    histogram->sum = histogram->sum_high = 0;
    histogram->min = UINT64_MAX;
}

static void add_to_sum(struct gs_histogram *histogram, uint64_t low, uint64_t high)
{
    histogram->sum += low;
    histogram->sum_high += high + (histogram->sum < low);
}

void gs_histogram_record(struct gs_histogram *histogram, uint64_t value)
{
    uint64_t kept = value;
    if (__builtin_expect(value > histogram->limit, 0)) {
        kept = histogram->limit;
        histogram->saturated++;
    }
    histogram->counts[bucket_of(histogram, kept)]++;
    histogram->count++;
    if (value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    add_to_sum(histogram, value, 0);
}

void gs_histogram_record_many(struct gs_histogram *histogram, uint64_t value, uint64_t count)
{
    if (!count)
        return;
    gs_histogram_record(histogram, value);
    uint64_t more = count - 1;
    bool is_saturated = value > histogram->limit;
    histogram->counts[bucket_of(histogram, is_saturated ? histogram->limit : value)] += more;
    histogram->saturated += is_saturated ? more : 0;
    histogram->count += more;
    unsigned __int128 sum = (unsigned __int128)value * more;
    add_to_sum(histogram, (uint64_t)sum, (uint64_t)(sum >> 64));
}

int gs_histogram_add(struct gs_histogram *histogram, const struct gs_histogram *from)
{
    if (histogram->limit != from->limit || histogram->digits != from->digits)
        return -EINVAL;
    uint32_t used = gs_histogram_used(from);
    for (uint32_t i = 0; i < used; i++)
        histogram->counts[i] += from->counts[i];
    histogram->count += from->count;
    histogram->saturated += from->saturated;
    if (from->min < histogram->min)
        histogram->min = from->min;
    if (from->max > histogram->max)
        histogram->max = from->max;
    add_to_sum(histogram, from->sum, from->sum_high);
    return 0;
}

uint64_t gs_histogram_min(const struct gs_histogram *histogram)
{
    return histogram->count ? histogram->min : 0;
}

uint64_t gs_histogram_max(const struct gs_histogram *histogram)
{
    return histogram->max;
}

double gs_histogram_mean(const struct gs_histogram *histogram)
{
    if (!histogram->count)
        return 0;
    double sum = (double)histogram->sum_high * 0x1p64 + (double)histogram->sum;
    return sum / (double)histogram->count;
}

double gs_histogram_stddev(const struct gs_histogram *histogram)
{
    if (!histogram->count)
        return 0;
    double mean = gs_histogram_mean(histogram), squares = 0;
    struct gs_histogram_cursor cursor = {0};
    while (gs_histogram_next(histogram, &cursor)) {
        double middle = (double)cursor.lowest + (double)(cursor.highest - cursor.lowest) / 2;
        squares += (middle - mean) * (middle - mean) * (double)cursor.count;
    }
    return sqrt(squares / (double)histogram->count);
}

uint64_t gs_histogram_percentile(const struct gs_histogram *histogram, double percentile)
{
    if (!histogram->count)
        return 0;
    double fraction = percentile < 0 ? 0 : percentile > 100 ? 1 : percentile / 100;
    /* The factor prevents a rank that is an integer except for rounding errors from being rounded
     * up. */
    double rank = ceil(fraction * (double)histogram->count * (1 - 1e-14));
    struct gs_histogram_cursor cursor = {0};
    while (gs_histogram_next(histogram, &cursor))
        if ((double)cursor.total >= rank)
            return cursor.highest;
    return histogram->max;
}

bool gs_histogram_next(const struct gs_histogram *histogram, struct gs_histogram_cursor *cursor)
{
    uint32_t bucket = cursor->bucket, used = gs_histogram_used(histogram);
    while (bucket < used && !histogram->counts[bucket])
        bucket++;
    if (bucket >= used)
        return false;
    uint64_t width;
    cursor->lowest = gs_histogram_bucket_lowest(histogram, bucket, &width);
    cursor->highest = cursor->lowest + (width - 1);
    if (bucket + 1 == used)
        cursor->highest = histogram->max;
    cursor->count = histogram->counts[bucket];
    cursor->total += cursor->count;
    cursor->bucket = bucket + 1;
    return true;
}
