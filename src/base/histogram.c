#include "base/histogram.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 5 };

/* Slots of width 1 reach to 2 * 10^digits at least, rounded up to a power of two: twice as many as
 * there are for each further doubling, since the lower half of those would repeat the widths
 * before. */
static uint8_t half_bits_for(int digits)
{
    uint64_t exact = 2;
    for (int i = 0; i < digits; i++)
        exact *= 10;
    return (uint8_t)(63 - __builtin_clzll(exact));
}

static uint32_t slot_of(const struct gs_histogram *histogram, uint64_t value)
{
    unsigned half_bits = histogram->half_bits;
    uint64_t exact = ((uint64_t)2 << half_bits) - 1;
    unsigned shift = 63 - half_bits - (unsigned)__builtin_clzll(value | exact);
    return (uint32_t)(((uint64_t)shift << half_bits) + (value >> shift));
}

uint64_t gs_histogram_slot_lowest(const struct gs_histogram *histogram, uint32_t slot,
                                  uint64_t *ret_width)
{
    unsigned half_bits = histogram->half_bits;
    unsigned shift = slot >> half_bits;
    shift -= shift > 0;
    *ret_width = (uint64_t)1 << shift;
    return (slot - ((uint64_t)shift << half_bits)) << shift;
}

uint32_t gs_histogram_used(const struct gs_histogram *histogram)
{
    if (!histogram->count)
        return 0;
    uint64_t top = histogram->largest < histogram->limit ? histogram->largest : histogram->limit;
    return slot_of(histogram, top) + 1;
}

int gs_histogram_init(struct gs_histogram *histogram, uint64_t limit, int digits)
{
    if (digits < 1 || digits > MOST_DIGITS || limit < 2 || limit > INT64_MAX)
        return -EINVAL;
    struct gs_histogram made = {.digits = (uint8_t)digits,
                                .half_bits = half_bits_for(digits),
                                .limit = limit,
                                .smallest = UINT64_MAX};
    made.slots = slot_of(&made, limit) + 1;
    made.counts = calloc(made.slots, sizeof *made.counts);
    if (!made.counts)
        return -ENOMEM;
    *histogram = made;
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
    histogram->count = histogram->saturated = histogram->largest = 0;
    histogram->sum = histogram->sum_carries = 0;
    histogram->smallest = UINT64_MAX;
}

static void add_to_sum(struct gs_histogram *histogram, uint64_t low, uint64_t high)
{
    histogram->sum += low;
    histogram->sum_carries += high + (histogram->sum < low);
}

void gs_histogram_record(struct gs_histogram *histogram, uint64_t value)
{
    uint64_t kept = value;
    if (__builtin_expect(value > histogram->limit, 0)) {
        kept = histogram->limit;
        histogram->saturated++;
    }
    histogram->counts[slot_of(histogram, kept)]++;
    histogram->count++;
    if (value < histogram->smallest)
        histogram->smallest = value;
    if (value > histogram->largest)
        histogram->largest = value;
    add_to_sum(histogram, value, 0);
}

void gs_histogram_record_many(struct gs_histogram *histogram, uint64_t value, uint64_t count)
{
    if (!count)
        return;
    gs_histogram_record(histogram, value);
    uint64_t more = count - 1;
    bool is_saturated = value > histogram->limit;
    histogram->counts[slot_of(histogram, is_saturated ? histogram->limit : value)] += more;
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
    if (from->smallest < histogram->smallest)
        histogram->smallest = from->smallest;
    if (from->largest > histogram->largest)
        histogram->largest = from->largest;
    add_to_sum(histogram, from->sum, from->sum_carries);
    return 0;
}

uint64_t gs_histogram_min(const struct gs_histogram *histogram)
{
    return histogram->count ? histogram->smallest : 0;
}

uint64_t gs_histogram_max(const struct gs_histogram *histogram)
{
    return histogram->largest;
}

double gs_histogram_mean(const struct gs_histogram *histogram)
{
    if (!histogram->count)
        return 0;
    double sum = (double)histogram->sum_carries * 0x1p64 + (double)histogram->sum;
    return sum / (double)histogram->count;
}

double gs_histogram_deviation(const struct gs_histogram *histogram)
{
    if (!histogram->count)
        return 0;
    double mean = gs_histogram_mean(histogram), squares = 0;
    struct gs_histogram_cursor at = {0};
    while (gs_histogram_next(histogram, &at)) {
        double middle = (double)at.lowest + (double)(at.highest - at.lowest) / 2;
        squares += (middle - mean) * (middle - mean) * (double)at.count;
    }
    return sqrt(squares / (double)histogram->count);
}

uint64_t gs_histogram_percentile(const struct gs_histogram *histogram, double percentile)
{
    if (!histogram->count)
        return 0;
    double fraction = percentile < 0 ? 0 : percentile > 100 ? 1 : percentile / 100;
    /* The factor keeps a rank that is a whole number, but for rounding, from becoming the next one.
     */
    double rank = ceil(fraction * (double)histogram->count * (1 - 1e-14));
    struct gs_histogram_cursor at = {0};
    while (gs_histogram_next(histogram, &at))
        if ((double)at.total >= rank)
            return at.highest;
    return histogram->largest;
}

bool gs_histogram_next(const struct gs_histogram *histogram, struct gs_histogram_cursor *at)
{
    uint32_t slot = at->slot, used = gs_histogram_used(histogram);
    while (slot < used && !histogram->counts[slot])
        slot++;
    if (slot >= used)
        return false;
    uint64_t width;
    at->lowest = gs_histogram_slot_lowest(histogram, slot, &width);
    at->highest = at->lowest + (width - 1);
    if (slot + 1 == used)
        at->highest = histogram->largest;
    at->count = histogram->counts[slot];
    at->total += at->count;
    at->slot = slot + 1;
    return true;
}
