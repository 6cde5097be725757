/* Writing reports. */
#include "thread/report/backtrace.h"

#include <gossamer/sys.h>
#include <stdarg.h>
#include <stdio.h>

int gs_report_fd(void)
{
    if (gs_runtime.options.is_silent)
        return -1;
    return gs_runtime.options.report_fd ? gs_runtime.options.report_fd : 2;
}

void gs_report_printf(int fd, const char *format, ...)
{
    char line[320];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n > 0 && fd >= 0)
        (void)gs_sys_write(fd, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void gs_symbol_describe(const struct symbol *symbol, char *ret_text, size_t size)
{
    if (symbol->name)
        snprintf(ret_text, size, "%.200s (%.80s+0x%zx)", symbol->name, symbol->module,
                 symbol->offset);
    else if (symbol->module)
        snprintf(ret_text, size, "%.80s+0x%zx", symbol->module, symbol->offset);
    else
        snprintf(ret_text, size, "0x%zx", symbol->offset);
}

void gs_report_symbol(int fd, const struct symbol *symbol)
{
    char text[SYMBOL_TEXT_SIZE];
    gs_symbol_describe(symbol, text, sizeof text);
    gs_report_printf(fd, " %s", text);
}

void gs_report_call(int fd, const void *pc)
{
    struct symbol symbol;
    gs_symbols_find(pc, &symbol);
    gs_report_printf(fd, "     ");
    gs_report_symbol(fd, &symbol);
    gs_report_printf(fd, "\n");
}

void gs_report_backtrace(int fd, const struct backtrace *backtrace)
{
    unsigned first = backtrace->count < BACKTRACE_FIRST ? backtrace->count : BACKTRACE_FIRST;
    unsigned last =
        backtrace->count - first < BACKTRACE_LAST ? backtrace->count - first : BACKTRACE_LAST;
    for (unsigned i = 0; i < first; i++)
        gs_report_call(fd, backtrace->first[i]);
    if (backtrace->count > first + last)
        gs_report_printf(fd, "      ... %u more\n", backtrace->count - first - last);
    for (unsigned i = backtrace->count - last; i < backtrace->count; i++)
        gs_report_call(fd, backtrace->last[i % BACKTRACE_LAST]);
}

/* Defined in a program that is built with the thread sanitizer. */
extern void tsan_init(void) __asm__("__tsan_init") __attribute__((weak));

/* The sanitizer keeps a stack of calls for each kernel thread, which a switch would confuse until
 * it overflows, or waits for ever. Returns 0, or -ENOTSUP after a report. */
static int check_sanitizer(void)
{
    if (GS_TSAN || !tsan_init)
        return 0;
    gs_report_printf(gs_report_fd(), "thread sanitizer: the library must be built with it, too "
                                     "(GS_SANITIZE=thread)\n");
    return -ENOTSUP;
}

int gs_reports_start(void)
{
    int err = check_sanitizer();
    if (!err)
        err = gs_reports_start_dumping(gs_runtime.workers[0]);
    if (!err && !gs_runtime.options.leaves_signals)
        gs_overflow_start();
    return err;
}

void gs_reports_stop(void)
{
    if (!gs_runtime.options.leaves_signals)
        gs_overflow_stop();
}
