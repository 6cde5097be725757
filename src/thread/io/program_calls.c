/* What a backtrace shows of the program: the library's calls are left out, but for the public
 * function that the program has called. */
#include "thread/report/backtrace.h"

static const void *call_at(const struct backtrace *backtrace, unsigned i)
{
    return i < BACKTRACE_FIRST ? backtrace->first[i] : backtrace->last[i % BACKTRACE_LAST];
}

static void add(struct program_calls *calls, const void *pc)
{
    calls->calls[calls->count++] = pc;
}

static void add_public(struct program_calls *calls, const void **start)
{
    if (*start && !calls->count)
        calls->innermost = *start;
    else if (*start)
        add(calls, *start);
    *start = NULL;
}

/* No more calls are added than were stored, which are BACKTRACE_MAX at most. */
void gs_program_calls_of(const struct backtrace *backtrace, struct program_calls *ret_calls)
{
    /* The outermost public function since the last call of the program. */
    const void *entry = NULL;
    *ret_calls = (struct program_calls){0};
    for (unsigned i = 0; i < backtrace->count; i++) {
        struct symbol symbol;
        if (i == BACKTRACE_FIRST && backtrace->count > BACKTRACE_MAX) {
            add_public(ret_calls, &entry);
            ret_calls->omitted_at = ret_calls->count;
            ret_calls->omitted = backtrace->count - BACKTRACE_MAX;
            i += ret_calls->omitted;
        }
        const void *pc = call_at(backtrace, i);
        gs_symbols_find(pc, &symbol);
        if (symbol.is_public)
            entry = symbol.start;
        if (symbol.is_own)
            continue;
        add_public(ret_calls, &entry);
        add(ret_calls, pc);
    }
    add_public(ret_calls, &entry);
}

void gs_program_calls_report(int fd, const struct program_calls *calls)
{
    if (calls->innermost)
        gs_report_call(fd, calls->innermost);
    for (unsigned i = 0; i <= calls->count; i++) {
        if (calls->omitted && i == calls->omitted_at)
            gs_report_printf(fd, "      ... %u more\n", calls->omitted);
        if (i < calls->count)
            gs_report_call(fd, calls->calls[i]);
    }
}
