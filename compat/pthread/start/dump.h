/* --dump-signal: a dump of all threads. */
#ifndef GS_COMPAT_PTHREAD_DUMP_H
#define GS_COMPAT_PTHREAD_DUMP_H

#include <stdbool.h>

struct kernel_action;
struct task;

/* Before there is a runtime: the signal must not end the program. */
void gs_dump_start_early(void);
bool gs_dump_is_early(const struct kernel_action *action); /* it is that handler */
void gs_dump_start(void);                                  /* with the runtime */
void gs_dump_forget(void);                                 /* in a forked child */

void gs_dump_request(void); /* in the receiver's signal handler */
/* At each of its ticks. Returns whether it must be called again soon. */
bool gs_dump_tick(bool has_time_passed);

/* Write the task's lines, if they are asked for. Inside. */
void gs_dump_self(struct task *task);
/* Write where the task is: the innermost calls of the program. Inside. */
void gs_dump_calls(const struct task *task);
void gs_dump_ended(struct task *task);

/* In the handler of a fault: does not return if the dump has caused it. */
void gs_dump_fault(const struct task *task);

#endif
