/* What all reports are written with. */
#include "thread/calls.h"

#include <gossamer/sys.h>
#include <stdarg.h>
#include <stdio.h>

int gs_report_fd(void)
{
    if (gs_runtime.options.is_silent)
        return -1;
    return gs_runtime.options.report_fd ? gs_runtime.options.report_fd : 2;
}

void gs_report_put(int fd, const char *format, ...)
{
    char line[320];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n > 0 && fd >= 0)
        (void)gs_sys_write(fd, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void gs_report_symbol(int fd, const struct symbol *symbol)
{
    if (symbol->name)
        gs_report_put(fd, " %.200s (%.80s+0x%zx)", symbol->name, symbol->module, symbol->offset);
    else if (symbol->module)
        gs_report_put(fd, " %.80s+0x%zx", symbol->module, symbol->offset);
    else
        gs_report_put(fd, " 0x%zx", symbol->offset);
}

static void put_call(int fd, const void *pc)
{
    struct symbol symbol;
    gs_symbols_find(pc, &symbol);
    gs_report_put(fd, "     ");
    gs_report_symbol(fd, &symbol);
    gs_report_put(fd, "\n");
}

void gs_report_calls(int fd, const struct calls *calls)
{
    unsigned first = calls->count < CALLS_FIRST ? calls->count : CALLS_FIRST;
    unsigned last = calls->count - first < CALLS_LAST ? calls->count - first : CALLS_LAST;
    for (unsigned i = 0; i < first; i++)
        put_call(fd, calls->first[i]);
    if (calls->count > first + last)
        gs_report_put(fd, "      ... %u more\n", calls->count - first - last);
    for (unsigned i = calls->count - last; i < calls->count; i++)
        put_call(fd, calls->last[i % CALLS_LAST]);
}

int gs_reports_start(void)
{
    int err = gs_reports_start_dumping(gs_runtime.workers[0]);
    if (!err)
        gs_overflow_start();
    return err;
}

void gs_reports_stop(void)
{
    gs_overflow_stop();
}
