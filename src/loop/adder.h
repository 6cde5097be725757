/* Adds many descriptors to a set of epoll's at once, through io_uring: cheaper than a system call
 * each. For one that is registered already this asks whether its number still means the registered
 * file. Without io_uring, or on a kernel whose io_uring has no such operation any more, nothing is
 * done. */
#ifndef GS_LOOP_ADDER_H
#define GS_LOOP_ADDER_H

struct gs_loop;
struct adder;

/* How many are added at a time, at the most. */
#define ADDER_BATCH 64

/* Adds `count` descriptors to `set`, always the same, for what their watchers want, and clears
 * SLOT_CHANGED of those for which that was all: they were added, or are registered for this and
 * were found to be. count 0: only opens the ring. *adder: NULL at first. */
void gs_loop_add_many(struct gs_loop *loop, struct adder **adder, int set, const int *fds,
                      unsigned count);

/* NULL is accepted. */
void gs_loop_free_adder(struct adder *adder);

#endif
