/* Output of the result, as text, JSON and HdrHistogram log. The functions return 0 or -EIO. */
#ifndef GS_LOAD_REPORT_H
#define GS_LOAD_REPORT_H

#include "load/run.h"

#include <stdio.h>

GS_MUST_CHECK int gs_load_report_text(const struct load_settings *settings,
                                      const struct load_result *result, FILE *file);
GS_MUST_CHECK int gs_load_report_json(const struct load_settings *settings,
                                      const struct load_result *result, FILE *file);

/* Each histogram is an interval with a tag, in nanoseconds. May also return -ENOMEM. */
GS_MUST_CHECK int gs_load_report_log(const struct load_result *result, FILE *file);

/* The histogram of service times, which in a closed loop is that of response times. */
static inline const struct gs_histogram *
gs_load_report_service(const struct load_settings *settings, const struct load_metrics *metrics)
{
    return &metrics->times[gs_load_is_open_loop(settings) ? LOAD_TIME_SERVICE : LOAD_TIME_RESPONSE];
}

/* The percentiles in text and JSON. */
struct load_percentile {
    const char *key, *title;
    double percent;
};
enum { LOAD_PERCENTILES = 5 };
extern const struct load_percentile gs_load_percentiles[LOAD_PERCENTILES];

#endif
