/* The runtime beside threads and waits: reports, the ends of things, forks, and the monitor. Part of thread/state.h. */
#ifndef GS_THREAD_WHOLE_H
#define GS_THREAD_WHOLE_H

#include "thread/worker.h"

/* ---- Reports (report.c, dump.c, deadlock.c, overflow.c) ---- */

int gs_reports_start(void);
void gs_reports_stop(void);
/* Of a new worker: 0 or -ENOMEM; the memory goes with it. The others in its kernel thread. */
int gs_reports_new_worker(struct worker *worker);
void gs_reports_start_worker(struct worker *worker);
void gs_reports_stop_worker(struct worker *worker);
void gs_report_deadlock(void);
/* The dump by signal, of the first worker. */
int gs_reports_start_dumping(struct worker *worker);
void gs_reports_stop_dumping(struct worker *worker);
/* sample.c: the signal by which workers are asked for their calls; 0: none is free. */
int gs_sample_signal(void);
void gs_overflow_start(void);
void gs_overflow_stop(void);
/* The calling thread's canary is gone: the process is to die by SIGSEGV. */
void gs_report_overflow(struct gs_thread *thread);
/* Where reports go; -1: nowhere. */
int gs_report_fd(void);

/* ---- Descriptors and pool (descriptors.c, pool.c): the runtime ends ---- */

void gs_descriptors_done(void);
void gs_pool_done(void);

/* ---- A forked process (fork.c): in the child, all but the calling thread is gone ---- */

void gs_descriptors_forked(void);
void gs_monitor_forked(void);
/* The end of an orphan, and of its process. */
_Noreturn void gs_fork_end(void);
/* The pool's lock is held. */
void gs_pool_forked(void);
void gs_pool_lock(void);
void gs_pool_unlock(void);

/* ---- Workers that are stuck (monitor.c) ---- */

int gs_monitor_start(void);
void gs_monitor_stop(void);
void gs_monitor_wake(void);
/* relief.c: wake those who wait for descriptors that stuck workers watch. Returns how many descriptors are ready. */
unsigned gs_descriptors_relieve(void);
/* After a step of the worker's loop: have threads run for which it has found something. */
void gs_descriptors_tell(struct worker *worker);
/* The worker stops watches that others have relinquished. */
void gs_descriptors_retire(struct worker *worker);

/* doing.c: say what the worker does. True: it sits in a system call; false: it computes. */
bool gs_worker_call(const struct worker *worker, char *ret_text, size_t size);

/* ---- Kernel mutexes that are held across a wait (held.c) ---- */

/* Look for the library that knows of them. */
void gs_held_start(void);
/* The thread is about to leave its stack. */
void gs_held_look(const struct gs_thread *thread);

/* ---- Invariants (check.c) ---- */

/* Assert those of state.h, as far as one worker can see them. By a user thread; for tests. */
void gs_threads_check(void);

#endif
