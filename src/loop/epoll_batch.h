/* Adds many descriptors to an epoll set with one system call, through io_uring. Adding a registered
 * descriptor verifies that its number still refers to the registered file. Does nothing where
 * io_uring is not available or has no epoll_ctl operation. */
#ifndef GS_LOOP_EPOLL_BATCH_H
#define GS_LOOP_EPOLL_BATCH_H

struct gs_loop;
struct epoll_batch;

/* The maximum number of descriptors per call. */
#define EPOLL_BATCH_SIZE 64

/* Add `count` descriptors to `set`, which is the same in each call, for the events that their
 * watchers want. Clears SLOT_CHANGED of those that were added, or that were found to be registered
 * for these events. count 0: only open the ring. *epoll_batch: NULL before the first call. */
void gs_epoll_batch_add(struct gs_loop *loop, struct epoll_batch **epoll_batch, int set,
                        const int *fds, unsigned count);

/* NULL is accepted. */
void gs_epoll_batch_free(struct epoll_batch *epoll_batch);

#endif
