/* select: two bits for each descriptor below FD_SETSIZE, which are passed to the kernel at each
 * wait. It does not report hang-ups. Edge-triggered descriptors are in an epoll set, which is one
 * more descriptor here; they may have any number. */
#include "loop/poller_epoll.h"
#include "loop/state.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <sys/select.h>

struct selects {
    struct epoll *edge_epoll;
    fd_set reads, writes;             /* wanted */
    fd_set ready_reads, ready_writes; /* reported by the last wait */
    int count;                        /* one more than the highest descriptor so far */
    bool has_closed;                  /* the last wait failed because a descriptor is closed */
};

static void add_fixed_descriptors(struct gs_loop *loop, struct selects *selects)
{
    int edge_epoll_fd = gs_loop_epoll_fd(selects->edge_epoll);
    FD_ZERO(&selects->reads);
    FD_ZERO(&selects->writes);
    FD_SET(loop->wake_fd, &selects->reads);
    FD_SET(edge_epoll_fd, &selects->reads);
    selects->count = 1 + (edge_epoll_fd > loop->wake_fd ? edge_epoll_fd : loop->wake_fd);
}

static int init(struct gs_loop *loop)
{
    struct selects *selects = malloc(sizeof *selects);
    if (!selects)
        return -ENOMEM;
    *selects = (struct selects){0};
    int err = gs_loop_epoll_new(-1, &selects->edge_epoll);
    if (err)
        goto free_selects;
    err = -EMFILE;
    if (loop->wake_fd >= FD_SETSIZE || gs_loop_epoll_fd(selects->edge_epoll) >= FD_SETSIZE)
        goto free_edges;
    add_fixed_descriptors(loop, selects);
    loop->poller_state = selects;
    return 0;

free_edges:
    gs_loop_epoll_free(selects->edge_epoll);
free_selects:
    free(selects);
    return err;
}

static void done(struct gs_loop *loop)
{
    struct selects *selects = loop->poller_state;
    gs_loop_epoll_free(selects->edge_epoll);
    free(selects);
}

static int reopen(struct gs_loop *loop)
{
    struct selects *selects = loop->poller_state;
    if (loop->wake_fd >= FD_SETSIZE)
        return -EMFILE;
    int err = gs_loop_epoll_reopen(selects->edge_epoll, -1);
    if (!err)
        add_fixed_descriptors(loop, selects);
    return err;
}

static void set_bit(int fd, fd_set *set, bool is_wanted)
{
    if (is_wanted)
        FD_SET(fd, set);
    else
        FD_CLR(fd, set);
}

static int set_bits(struct selects *selects, int fd, unsigned wanted)
{
    if (fd >= FD_SETSIZE)
        return wanted ? -EMFILE : 0;
    bool is_new = !FD_ISSET(fd, &selects->reads) && !FD_ISSET(fd, &selects->writes);
    int err = wanted && is_new ? gs_loop_check_pollable(fd) : 0;
    if (err)
        return err;
    set_bit(fd, &selects->reads, wanted & GS_READ);
    set_bit(fd, &selects->writes, wanted & GS_WRITE);
    if (fd >= selects->count)
        selects->count = fd + 1;
    return 0;
}

static int set(struct gs_loop *loop, int fd, unsigned wanted)
{
    struct selects *selects = loop->poller_state;
    bool was_edge_triggered = loop->slots[fd].registered & GS_EDGE;
    if (wanted & GS_EDGE) {
        (void)set_bits(selects, fd, 0);
        return gs_loop_epoll_set(loop, selects->edge_epoll, fd, wanted);
    }
    if (was_edge_triggered)
        (void)gs_loop_epoll_set(loop, selects->edge_epoll, fd, 0);
    if (loop->slots[fd].flags & SLOT_VERIFY)
        (void)set_bits(selects, fd, 0);
    return set_bits(selects, fd, wanted);
}

static int wait(struct gs_loop *loop, uint64_t timeout_ns)
{
    struct selects *selects = loop->poller_state;
    selects->ready_reads = selects->reads;
    selects->ready_writes = selects->writes;
    void *descriptors[] = {&selects->ready_reads, &selects->ready_writes, NULL};
    int count = gs_sys_select(selects->count, descriptors, timeout_ns);
    selects->has_closed = count == -EBADF;
    return selects->has_closed ? 1 : count;
}

static void collect_closed(struct gs_loop *loop, struct selects *selects)
{
    for (int fd = 0; fd < selects->count; fd++) {
        if (!FD_ISSET(fd, &selects->reads) && !FD_ISSET(fd, &selects->writes))
            continue;
        if (gs_sys_fcntl(fd, F_GETFD, 0) != -EBADF)
            continue;
        (void)set_bits(selects, fd, 0);
        gs_loop_io_failed(loop, &loop->slots[fd], -EBADF);
    }
}

static void collect(struct gs_loop *loop, int count)
{
    struct selects *selects = loop->poller_state;
    int edge_epoll_fd = gs_loop_epoll_fd(selects->edge_epoll);
    if (selects->has_closed) {
        collect_closed(loop, selects);
        return;
    }
    for (int fd = 0; count > 0 && fd < selects->count; fd++) {
        unsigned events = (FD_ISSET(fd, &selects->ready_reads) ? GS_READ : 0) |
                          (FD_ISSET(fd, &selects->ready_writes) ? GS_WRITE : 0);
        if (!events)
            continue;
        count -= 1 + (events == READ_WRITE);
        if (fd == loop->wake_fd)
            gs_loop_drain_wake_fd(loop);
        else if (fd == edge_epoll_fd)
            gs_loop_epoll_drain(loop, selects->edge_epoll);
        else
            gs_loop_io_ready(loop, &loop->slots[fd], events);
    }
}

const struct poller gs_loop_poller_select = {
    .name = "select",
    .needs_close = true,
    .init = init,
    .done = done,
    .set = set,
    .wait = wait,
    .collect = collect,
    .reopen = reopen,
};
