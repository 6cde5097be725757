/* Backtraces of threads, and the names of the functions in them. */
#ifndef GS_THREAD_BACKTRACE_H
#define GS_THREAD_BACKTRACE_H

#include "thread/report/report.h"

enum { BACKTRACE_FIRST = 24, BACKTRACE_LAST = 8 };

/* Of a very deep stack, the newest and the oldest calls. Each address is within the instruction
 * that calls. */
struct backtrace {
    unsigned count;
    const void *first[BACKTRACE_FIRST];
    const void *last[BACKTRACE_LAST]; /* call n at n % BACKTRACE_LAST */
};

/* ---- Walking a stack (backtrace.c) ---- */

/* Backtrace of a thread that has left its stack. is_stable: no worker can run it meanwhile. */
void gs_backtrace_of_waiting(struct gs_thread *thread, bool is_stable,
                             struct backtrace *ret_backtrace);

/* Backtrace of the calling thread, also on the worker's stack, from the call that returns to pc. */
void gs_backtrace_of_caller(const struct gs_thread *thread, const void *pc,
                            struct backtrace *ret_backtrace);

/* Called by a signal handler: backtrace of the thread that the signal has interrupted; NULL: of the
 * kernel thread. context: the handler's third argument. */
const void *gs_stack_pointer_of_interrupted(const void *context);
const void *gs_pc_of_interrupted(const void *context);
void gs_backtrace_of_interrupted(const struct gs_thread *thread, const void *context,
                                 struct backtrace *ret_backtrace);

/* ---- A thread that another worker runs (worker_activity.c) ---- */

/* Describe what the worker's kernel thread is doing. Returns true if it is in a system call, false
 * if it is computing. */
bool gs_worker_activity(const struct worker *worker, char *ret_text, size_t size);

/* ---- Names (symbols.c) ---- */

struct symbol {
    const char *name; /* NULL: unknown. Valid until gs_symbols_close */
    const char *module;
    size_t offset; /* as addr2line takes it; the address itself if the module is unknown */
};

/* Between these two calls, functions that are not exported are found, too. may_wait: wait for
 * another kernel thread that has opened the symbols; where that is not possible (in signal
 * handlers), such functions remain unknown. */
void gs_symbols_open(bool may_wait);
void gs_symbols_close(void);
void gs_symbols_find(const void *pc, struct symbol *ret_symbol);

/* Called in the child: another kernel thread of the parent may have been writing a report. */
void gs_symbols_after_fork(void);

#endif
