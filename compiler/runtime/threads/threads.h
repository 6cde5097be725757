/* All threads of the program: where debuggers and dumps find them. */
#ifndef GS_COMPILER_THREADS_H
#define GS_COMPILER_THREADS_H

#include <pthread.h>
#include <stdbool.h>

struct thread;

/* Memory for a thread, not initialised. Ends the process if there is none. */
struct thread *gs_cc_thread_allocate(void);
void gs_cc_thread_release(struct thread *thread);

/* Whether it is a thread of the program, not a kernel thread. */
bool gs_cc_is_thread(pthread_t id);

/* Visit all that are in use, also those that have ended, until the function returns false. */
void gs_cc_each_thread(bool (*visit)(struct thread *thread, void *argument), void *argument);

/* Called by gs_threads_dump: write the threads that do not run, grouped by their calls. */
void gs_cc_dump(int fd);

#endif
