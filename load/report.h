/* The result, for people and for programs. Each returns 0 or -EIO. */
#ifndef GS_LOAD_REPORT_H
#define GS_LOAD_REPORT_H

#include "load/run.h"

#include <stdio.h>

GS_MUST_CHECK int gs_load_report_text(const struct load_settings *settings,
                                      const struct load_result *result, FILE *file);
GS_MUST_CHECK int gs_load_report_json(const struct load_settings *settings,
                                      const struct load_result *result, FILE *file);

/* The histograms as an HdrHistogram log, each with a tag, in nanoseconds. Or -ENOMEM. */
GS_MUST_CHECK int gs_load_report_log(const struct load_result *result, FILE *file);

/* In a closed loop they are the response times. */
static inline const struct gs_histogram *
gs_load_report_service(const struct load_settings *settings, const struct load_tally *tally)
{
    return &tally->times[settings->rate ? LOAD_TIME_SERVICE : LOAD_TIME_RESPONSE];
}

/* The figures that both reports give of a histogram. */
struct load_percentile {
    const char *key, *title;
    double percent;
};
enum { LOAD_PERCENTILES = 5 };
extern const struct load_percentile gs_load_percentiles[LOAD_PERCENTILES];

#endif
