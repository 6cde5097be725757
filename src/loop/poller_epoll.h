/* A set of epoll's, for its own poller and for those that know no edges: these keep the descriptors
 * that are wanted so in a set of their own, and watch that set as one more descriptor. */
#ifndef GS_LOOP_POLLER_EPOLL_H
#define GS_LOOP_POLLER_EPOLL_H

#include <gossamer/api.h>
#include <stdint.h>
#include <sys/epoll.h>

struct gs_loop;
struct epoll;

/* wake_fd: watched by the set; -1: none. Returns 0, -ENOMEM, -EMFILE or -ENFILE. */
GS_MUST_CHECK int gs_loop_epoll_new(int wake_fd, struct epoll **ret_epoll);
void gs_loop_epoll_free(struct epoll *epoll);

/* Have a second eventfd end the set's waits, as wake_fd does: by edges, nobody reads it. */
GS_MUST_CHECK int gs_loop_epoll_add_wake(struct epoll *epoll, int wake_fd);

/* As of struct poller. */
int gs_loop_epoll_set(struct gs_loop *loop, struct epoll *epoll, int fd, unsigned wanted);
int gs_loop_epoll_reopen(struct epoll *epoll, int wake_fd);

/* What is told to the kernel for a slot. */
struct epoll_event gs_loop_epoll_event(int fd, uint32_t generation, unsigned wanted);

/* Readable when the set has something to report. */
int gs_loop_epoll_fd(const struct epoll *epoll);

/* Collect all that it has to report now. */
void gs_loop_epoll_drain(struct gs_loop *loop, struct epoll *epoll);

#endif
