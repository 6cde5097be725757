/* What the allocator (allocator.c) knows. */
#ifndef GS_TEST_ALLOCATOR_H
#define GS_TEST_ALLOCATOR_H

/* How often the thread has called it, and how often two threads were in it at the same time. */
unsigned allocator_calls(void);
int allocator_together(void);

/* Whether the thread has allocated the block. */
int allocator_is_own(const void *block);

void allocator_be_slow(void);

#endif
