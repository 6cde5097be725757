#include "load/run.h"

#include <gossamer/clock.h>

#include <stdio.h>

/* A worker that has less than this to spare sends late what is due, and sees late what has come. */
static const double too_busy = 0.95;

void gs_load_result_judge(struct load_result *result, const struct load_settings *settings)
{
    uint64_t late_ns = gs_histogram_percentile(&result->tally.times[LOAD_TIME_LAG], 99);
    if (!settings->rate)
        return;
    if (late_ns > settings->late_ns)
        snprintf(result->void_reason, sizeof result->void_reason,
                 "the client was the limit: with connections free, one request in a hundred was "
                 "sent %.1f us too late or more",
                 (double)late_ns / (double)GS_MICROSECOND);
    else if (result->busiest > too_busy)
        snprintf(result->void_reason, sizeof result->void_reason,
                 "the client was the limit: its busiest worker had work %.0f %% of the time",
                 result->busiest * 100);
    result->is_void = result->void_reason[0] != '\0';
}
