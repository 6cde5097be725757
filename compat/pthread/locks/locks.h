/* Objects of synchronization without the signal (locks.c, semaphores.c). */
#ifndef GS_COMPAT_PTHREAD_LOCKS_H
#define GS_COMPAT_PTHREAD_LOCKS_H

struct task;

/* Before there are tasks: compare the C library's objects with what is expected of them. */
void gs_locks_start(const struct task *main_task);
void gs_semaphores_start(void);

#endif
