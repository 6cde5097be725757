#include "base/checked.h"

#ifdef GS_CHECKED
#include <dlfcn.h>
#include <gossamer/clock.h>
#include <gossamer/sys.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#define CALLS_MAX 32

/* A function that is not exported has no name here. */
static void describe(const void *pc, char *ret_text, size_t size)
{
    Dl_info info = {0};
    if (!dladdr(pc, &info) || !info.dli_fname) {
        snprintf(ret_text, size, "%p", pc);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const char *module = slash ? slash + 1 : info.dli_fname;
    size_t offset = (size_t)((const char *)pc - (const char *)info.dli_fbase);
    if (info.dli_sname)
        snprintf(ret_text, size, "%.200s (%.80s+0x%zx)", info.dli_sname, module, offset);
    else
        snprintf(ret_text, size, "%.80s+0x%zx", module, offset);
}

struct gs_checked_reports gs_checked_reports = {STDERR_FILENO, describe};

__attribute__((format(printf, 1, 2))) static void print(const char *format, ...)
{
    char line[640];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    size_t size = (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    (void)gs_sys_write(gs_checked_reports.fd, line, size);
}

/* The address is a return address: the call is before it. */
static void describe_call(const void *site, char *ret_text, size_t size)
{
    gs_checked_reports.describe((const char *)site - 1, ret_text, size);
}

struct walk {
    const void *site;
    unsigned count; /* calls printed */
};

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *data)
{
    struct walk *walk = data;
    const void *pc = (const void *)_Unwind_GetIP(context);
    char text[320];
    if (!pc || walk->count == CALLS_MAX)
        return _URC_END_OF_STACK;
    if (!walk->count && pc != walk->site)
        return _URC_NO_REASON;
    walk->count++;
    describe_call(pc, text, sizeof text);
    print("      %s\n", text);
    return _URC_NO_REASON;
}

/* Of several kernel threads that misuse something at the same time, one reports. */
_Noreturn void gs_misuse(struct gs_call call, const char *format, ...)
{
    static atomic_bool is_reporting;
    struct walk walk = {.site = call.site};
    char what[256], where[320];
    va_list arguments;
    while (atomic_exchange(&is_reporting, true))
        pause();
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    describe_call(call.site, where, sizeof where);
    print("gossamer: %s: %s (in %s)\n", call.function, what, where);
    _Unwind_Backtrace(on_frame, &walk);
    abort();
}

/* ---- Deadlines ---- */

static uint64_t start_ns;

__attribute__((constructor)) static void read_start(void)
{
    start_ns = gs_clock_now();
}

/* The least that is taken for a duration: programs use small numbers as times that have passed. */
#define SPAN_MIN (10 * GS_MICROSECOND)

/* A time that has passed is no duration: half of the time from the boot of the machine to the start
 * of the program is left for those. So a duration is found if the machine has run for twice as
 * long. */
void gs_checked_deadline(struct gs_call call, uint64_t deadline_ns)
{
    if (deadline_ns >= SPAN_MIN && deadline_ns < start_ns / 2)
        gs_misuse(call,
                  "the deadline %llu.%06llu s is long before the start of the program: "
                  "a duration, without gs_clock_now()?",
                  (unsigned long long)(deadline_ns / GS_SECOND),
                  (unsigned long long)(deadline_ns % GS_SECOND / GS_MICROSECOND));
}
#endif
