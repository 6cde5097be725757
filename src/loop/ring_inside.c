/* A loop on io_uring inside another. Its ring's own descriptor tells nothing of the work that is
 * left to the owner's next call, but an eventfd that is registered with the ring does. What the
 * outer loop watches is a set of epoll's with that eventfd and the one that wakes the loop. */
#include "loop/poller_epoll.h"
#include "loop/uring.h"

#include <gossamer/sys.h>
#include <sys/eventfd.h>

static int watch_ring(struct uring *uring, int told_fd)
{
    int err = gs_loop_epoll_add_wake(uring->outside, told_fd);
    if (!err)
        err = gs_sys_io_uring_register(uring->ring.fd, IORING_REGISTER_EVENTFD, &told_fd, 1);
    return err;
}

int gs_uring_descriptor(struct gs_loop *loop)
{
    struct uring *uring = loop->poller_state;
    if (uring->outside)
        return gs_loop_epoll_fd(uring->outside);
    int told_fd = gs_sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (told_fd < 0)
        return told_fd;
    int err = gs_loop_epoll_new(loop->wake_fd, &uring->outside);
    if (err)
        goto close_told_fd;
    err = watch_ring(uring, told_fd);
    if (err)
        goto free_outside;
    uring->told_fd = told_fd;
    return gs_loop_epoll_fd(uring->outside);

free_outside:
    gs_loop_epoll_free(uring->outside);
    uring->outside = NULL;
close_told_fd:
    gs_sys_close(told_fd);
    return err;
}

void gs_uring_close_descriptor(struct uring *uring)
{
    if (!uring->outside)
        return;
    gs_loop_epoll_free(uring->outside);
    uring->outside = NULL;
    gs_sys_close(uring->told_fd);
}

/* Work that was told before is done here, so that what is told from now on is all that is new. */
bool gs_uring_hand_over(struct gs_loop *loop)
{
    struct uring *uring = loop->poller_state;
    return gs_ring_enter(&uring->ring, 0, 0) || gs_ring_ready(&uring->ring);
}
