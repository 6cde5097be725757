/* Memory for records, environments and threads: blocks of few sizes, kept for reuse by each kernel
 * thread. */
#ifndef GS_COMPILER_MEMORY_H
#define GS_COMPILER_MEMORY_H

#include <stddef.h>

/* Aligned as 8 bytes are. Ends the process if there is no memory: compiled code cannot report
 * it. */
void *gs_cc_allocate(size_t size);
void gs_cc_release(void *block, size_t size);

/* The same, aligned as 16 bytes are. */
void *gs_cc_allocate_aligned(size_t size);
void gs_cc_release_aligned(void *block, size_t size);

/* For the thread-local variables of a thread: always the same size and alignment. */
void *gs_cc_allocate_locals(size_t size, size_t alignment);
void gs_cc_release_locals(void *locals);

#endif
