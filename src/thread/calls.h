/* The calls on a stack, and what they are named. */
#ifndef GS_THREAD_CALLS_H
#define GS_THREAD_CALLS_H

#include "thread/state.h"

enum { CALLS_FIRST = 24, CALLS_LAST = 8, CALLS_OFTEN = 16 };

/* Of a very deep stack, the newest and the oldest, and what occurs often. An address is within the instruction that calls. */
struct calls {
    unsigned count;
    const void *first[CALLS_FIRST];
    const void *last[CALLS_LAST]; /* call n at n % CALLS_LAST */
    struct {
        const void *pc;
        unsigned count;
    } often[CALLS_OFTEN];
};

/* ---- Found (backtrace.c) ---- */

/* Of a thread that has left its stack; is_steady: and nobody can run it meanwhile. */
void gs_calls_of_waiting(const struct gs_thread *thread, bool is_steady, struct calls *ret_calls);
/* Of the calling thread, also on a borrowed stack, from the call that returns to pc. */
void gs_calls_of_caller(const struct gs_thread *thread, const void *pc, struct calls *ret_calls);
/* In a signal's handler: of the thread that the signal has interrupted; context: the handler's. */
void gs_calls_of_interrupted(const struct gs_thread *thread, const void *context,
                             struct calls *ret_calls);

/* In the handler of the signal by which a worker's kernel thread is asked: none, if it does not run the thread. By frame pointers. */
void gs_calls_of_sampled(const struct worker *worker, const struct gs_thread *thread,
                         const void *context, struct calls *ret_calls);
/* sample.c: of a thread that another worker runs now. Not while that sits in a system call, which would be interrupted. False: it
 * does not run any more, or the worker's kernel thread has blocked the signal. */
bool gs_calls_of_running(struct worker *worker, const struct gs_thread *thread,
                         struct calls *ret_calls);

/* ---- Named (symbols.c) ---- */

struct symbol {
    const char *name; /* NULL: not known. Stays until gs_symbols_end */
    const char *module;
    size_t offset; /* of the address in the module; the address itself where there is none */
};

/* Between these two, functions that are not exported are known, too. Another thread is waited for; where that is not possible
 * (signal handlers), they are just not known. */
void gs_symbols_begin(bool may_wait);
void gs_symbols_end(void);
void gs_symbols_find(const void *pc, struct symbol *ret_symbol);

/* ---- Written (report.c) ---- */

__attribute__((format(printf, 2, 3))) void gs_report_put(int fd, const char *format, ...);
void gs_report_symbol(int fd, const struct symbol *symbol);
void gs_report_calls(int fd, const struct calls *calls);

#endif
