/* What the library says to the user, on standard error: why it refuses a program, counts, and with
 * --explain and --trace which system calls come to it. */
#include "compat/pthread/start/calls.h"
#include "compat/pthread/start/dump.h"
#include "compat/pthread/threads/task.h"

#include <gossamer/sys.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSED 126

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char line[320];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n > (int)sizeof line - 1)
        n = (int)sizeof line - 1;
    gs_syscall(SYS_write, STDERR_FILENO, (long)line, n, 0, 0, 0);
}

static const char *name_of(long number, char *buffer, size_t size)
{
    const struct gs_call *call = gs_call_of(number);
    if (call)
        return call->name;
    snprintf(buffer, size, "%ld", number);
    return buffer;
}

_Noreturn void gs_report_refusal(const char *reason)
{
    say("gossamer run: %s\n", reason);
    for (;;)
        gs_syscall(SYS_exit_group, REFUSED, 0, 0, 0, 0, 0);
}

void gs_report_native(const char *reason)
{
    if (gs_run.explains)
        say("gossamer run: the threads are the kernel's: %s\n", reason);
}

void gs_report_stats(void)
{
    struct gs_threads_stats stats;
    if (!gs_run.has_stats || !gs_run.is_active)
        return;
    gs_threads_stats(&stats);
    say("gossamer run: %lu threads, %lu switches, %lu calls through the signal, "
        "%lu through wrappers, %lu in the pool, %lu waits, %lu hand-overs, "
        "%lu preemptions (%lu after a short turn), %lu signals\n",
        gs_counts.tasks + 1, stats.switches, gs_counts.dispatched, gs_counts.wrapped,
        gs_counts.pool_calls, gs_counts.waits, gs_counts.hand_overs, gs_counts.preemptions,
        gs_counts.short_turns, gs_counts.signals);
}

void gs_report_advice(const char *numbers, const char *advice)
{
    say("gossamer run: measured: %s: %s\n", numbers, advice);
}

/* Once for each system call. Inside. */
void gs_explain(const struct task *task, long number, const char *how)
{
    static atomic_uchar is_explained[CALLS];
    char buffer[24];
    if (number < 0 || number >= CALLS || atomic_exchange(&is_explained[number], true))
        return;
    say("gossamer run: %s %s\n", name_of(number, buffer, sizeof buffer), how);
    gs_dump_calls(task);
}

/* Once: why threads cannot be created, in most programs that come to this limit. */
void gs_explain_mappings(void)
{
    static atomic_bool is_explained;
    if (atomic_exchange(&is_explained, true))
        return;
    say("gossamer run: no memory, or more than vm.max_map_count mappings: two for each thread, "
        "none for most with --stack-policy unguarded\n");
}

void gs_trace(const struct task *task, long number)
{
    char buffer[24];
    say("gossamer run: [%u] %s\n", task->tid, name_of(number, buffer, sizeof buffer));
}
