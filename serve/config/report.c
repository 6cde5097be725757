#include "serve/config/report.h"

#include <stdarg.h>

static unsigned max_of(const struct serve_report *report)
{
    return report->max ? report->max : SERVE_REPORT_MAX;
}

static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

void serve_report_add(struct serve_report *report, unsigned line, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (report->count++ >= max_of(report))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    make_printable(text);
    if (line)
        fprintf(report->out, "%s:%u: %s\n", report->file, line, text);
    else
        fprintf(report->out, "%s: %s\n", report->file, text);
}

unsigned serve_report_end(struct serve_report *report)
{
    if (report->count > max_of(report))
        fprintf(report->out, "%s: %u more problems are not shown\n", report->file,
                report->count - max_of(report));
    return report->count;
}
