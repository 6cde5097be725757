#include "base/histogram.h"

#include <errno.h>
#include <math.h>

/* The next percentage in the table, which has `ticks` lines per halving of the distance to 100. */
static double next_level(double level, int ticks)
{
    double halvings = floor(log2(100 / (100 - level))) + 1;
    return level + 100 / (ticks * exp2(halvings));
}

static void print_line(FILE *file, double value, double percent, uint64_t total)
{
    fprintf(file, "%12.3f %2.12f %10llu", value, percent / 100, (unsigned long long)total);
    if (percent < 100)
        fprintf(file, " %14.2f", 1 / (1 - percent / 100));
    fputc('\n', file);
}

static void print_lines(const struct gs_histogram *histogram, FILE *file, int ticks, double unit)
{
    double level = 0;
    struct gs_histogram_cursor cursor = {0};
    while (gs_histogram_next(histogram, &cursor)) {
        double reached = 100 * (double)cursor.total / (double)histogram->count;
        bool is_last = false;
        while (level <= reached && !is_last) {
            print_line(file, (double)cursor.highest / unit, level, cursor.total);
            level = next_level(level, ticks);
            is_last = cursor.total == histogram->count;
        }
    }
    if (histogram->count)
        print_line(file, (double)histogram->max / unit, 100, histogram->count);
}

int gs_histogram_print(const struct gs_histogram *histogram, FILE *file, int ticks, double unit)
{
    uint64_t exact = (uint64_t)2 << histogram->half_bits;
    uint32_t widths =
        histogram->buckets <= exact ? 1 : (histogram->buckets - 1) >> histogram->half_bits;
    fprintf(file, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
            "1/(1-Percentile)");
    print_lines(histogram, file, ticks > 0 ? ticks : 5, unit);
    fprintf(file, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n",
            gs_histogram_mean(histogram) / unit, gs_histogram_stddev(histogram) / unit);
    fprintf(file, "#[Max     = %12.3f, Total count    = %12llu]\n", (double)histogram->max / unit,
            (unsigned long long)histogram->count);
    fprintf(file, "#[Buckets = %12d, SubBuckets     = %12llu]\n", (int)widths,
            (unsigned long long)exact);
    return ferror(file) ? -EIO : 0;
}
