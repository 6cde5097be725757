/* How much stack the calls on stacks of a converted program need, as far as that can be proven: the
 * sum of the frames along the deepest chain of calls. Frames are clang's (-fstack-usage), calls are
 * those that the plugin names (compiler/plugin/decide/stack_graph.h), and functions of the C
 * library and the runtime have an allowance (allowances.h). What calls a function through a pointer
 * or recursively, or one that has no allowance, has no bound. */
#ifndef GS_COMPILER_STACKS_H
#define GS_COMPILER_STACKS_H

#include "compiler/driver/words.h"

/* What was found. It is never freed. */
struct stacks;

/* graph: the plugin's file; usage: clang's. Returns NULL after a message. */
struct stacks *cc_stacks_read(const char *graph, const char *usage);

/* Write a source of C with what each call needs, for the runtime (abi.h). Returns 0, or 1
 * after a message. */
int cc_stacks_write(struct stacks *stacks, const char *path);

/* Copy a report, and put what functions need where it says so. Returns 0, or 1 after a message. */
int cc_stacks_complete(struct stacks *stacks, const char *report, const char *path);

#endif
