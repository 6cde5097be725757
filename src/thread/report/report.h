/* Reports about threads, which are written to one file descriptor: deadlocks, stack overflows and
 * dumps. */
#ifndef GS_THREAD_REPORT_H
#define GS_THREAD_REPORT_H

#include "thread/schedule/thread.h"

struct backtrace;
struct symbol;

/* ---- Writing (report.c) ---- */

int gs_reports_start(void);
void gs_reports_stop(void);

/* The file descriptor for reports. -1: reports are disabled. */
int gs_report_fd(void);
__attribute__((format(printf, 2, 3))) void gs_report_printf(int fd, const char *format, ...);
#define SYMBOL_TEXT_SIZE 320
void gs_symbol_describe(const struct symbol *symbol, char *ret_text, size_t size);
void gs_report_symbol(int fd, const struct symbol *symbol);
void gs_report_call(int fd, const void *pc);
void gs_report_backtrace(int fd, const struct backtrace *backtrace);

/* ---- Which thread (label.c) ---- */

/* Where the function that the thread runs is on its stack; 0: nowhere. */
uintptr_t gs_report_function_at(const struct gs_thread *thread);

/* The function; NULL: unknown. */
const void *gs_report_function(const struct gs_thread *thread);

/* Write the name; if that is empty, the function as "serve()", or nothing if it is unknown. Finds
 * names as gs_symbols_find does. */
#define LABEL_SIZE 64
const char *gs_report_label(const char *name, const void *function, char ret_label[LABEL_SIZE]);
const char *gs_report_label_of(const struct gs_thread *thread, char ret_label[LABEL_SIZE]);

/* ---- What a thread waits at (dump_object.c) ---- */

/* Describe it, after a space: the number of a descriptor with the address of its peer, the number
 * of a signal, or an address. Empty: nothing is known. */
void gs_dump_object(const struct wait_kind *kind, const void *object, char *ret_text, size_t size);

/* ---- Deadlock of all threads (deadlock.c) ---- */

void gs_report_deadlock(void);

/* ---- The signal for a dump, which the first worker's loop handles (dump.c) ---- */

int gs_reports_start_dumping(struct worker *worker);

/* ---- Stack overflow (stack_overflow.c) ---- */

/* Allocate a worker's stack for signal handlers, which gs_worker_free frees. Returns 0 or
 * -ENOMEM. */
int gs_reports_new_worker(struct worker *worker);

/* Called by the worker's kernel thread. */
void gs_reports_start_worker(struct worker *worker);
void gs_reports_stop_worker(struct worker *worker);

void gs_overflow_start(void);
void gs_overflow_stop(void);

/* Report that the calling thread has overwritten its canary, and raise SIGSEGV. */
void gs_report_overflow(struct gs_thread *thread);
void gs_report_overflow_of_waiting(struct gs_thread *thread); /* on the worker's own stack */

#endif
