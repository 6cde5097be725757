/* Problems of a configuration file: each is a line FILE:LINE: TEXT, which says what is wrong and
 * what to do.
 *
 *     struct serve_report report = {.file = "site.yaml", .out = stderr};
 *     serve_report_add(&report, 3, "\"idle\" is no setting: did you mean idle_timeout?");
 *     if (serve_report_end(&report))
 *         return -EINVAL;
 */
#ifndef GS_SERVE_REPORT_H
#define GS_SERVE_REPORT_H

#include <stdio.h>

/* Of more problems only the number is printed, unless the report says another limit. */
enum { SERVE_REPORT_MAX = 20 };

struct serve_report {
    const char *file;
    FILE *out;
    unsigned max; /* 0: SERVE_REPORT_MAX */
    unsigned count;
};

/* Unprintable bytes of the text are replaced. Line 0: the problem is that of the whole file. */
void serve_report_add(struct serve_report *report, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Print how many problems were not shown. Returns the number of all. */
unsigned serve_report_end(struct serve_report *report);

#endif
