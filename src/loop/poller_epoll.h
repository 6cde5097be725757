/* An epoll set: for the epoll poller, and for poll and select, which are level-triggered. Those
 * keep edge-triggered descriptors in an epoll set, which they watch as one more descriptor. */
#ifndef GS_LOOP_POLLER_EPOLL_H
#define GS_LOOP_POLLER_EPOLL_H

#include <gossamer/api.h>
#include <stdint.h>
#include <sys/epoll.h>

struct gs_loop;
struct epoll;

/* wake_fd: added to the set; -1: none. Returns 0, -ENOMEM, -EMFILE or -ENFILE. */
GS_MUST_CHECK int gs_loop_epoll_new(int wake_fd, struct epoll **ret_epoll);
void gs_loop_epoll_free(struct epoll *epoll);

/* Add a second eventfd that ends waits as wake_fd does: edge-triggered, it need not be read. */
GS_MUST_CHECK int gs_loop_epoll_add_wake(struct epoll *epoll, int wake_fd);

/* As in struct poller. */
int gs_loop_epoll_set(struct gs_loop *loop, struct epoll *epoll, int fd, unsigned wanted);
int gs_loop_epoll_reopen(struct epoll *epoll, int wake_fd);

/* The event to register for a slot. */
struct epoll_event gs_loop_epoll_event(int fd, uint32_t generation, unsigned wanted);

/* The descriptor of the set, which is readable when the set has events. */
int gs_loop_epoll_fd(const struct epoll *epoll);

/* Collect the events of the set without waiting. */
void gs_loop_epoll_drain(struct gs_loop *loop, struct epoll *epoll);

#endif
