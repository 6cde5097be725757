/* The memory of the runtime in this library. */
#ifndef GS_COMPAT_PTHREAD_MEMORY_H
#define GS_COMPAT_PTHREAD_MEMORY_H

/* Around a fork, so that the child finds the lists whole. */
void gs_memory_lock(void);
void gs_memory_unlock(void);

#endif
