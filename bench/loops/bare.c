/* The lower bound: epoll without a library. Descriptors stay registered. */
#include "bench/loops/frame.h"

#include <sys/epoll.h>

#define EVENTS 256

static int set;
static bool *is_watched;

void subject_open(enum restart_mode mode, unsigned io_count, unsigned timer_count)
{
    if (mode != RESTART_SAME || timer_count)
        frame_unsupported();
    set = epoll_create1(0);
    frame_must(set >= 0, "epoll_create1");
    is_watched = frame_storage(io_count, sizeof *is_watched);
}

void subject_watch(unsigned i, int fd, uint64_t timeout_ns)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
    if (timeout_ns)
        frame_unsupported();
    if (!is_watched[i])
        frame_must(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
    is_watched[i] = true;
}

void subject_set_timer(unsigned i, uint64_t delay_ns)
{
    (void)i, (void)delay_ns;
    frame_unsupported();
}

void subject_step(void)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(set, events, EVENTS, 0);
    for (int i = 0; i < count; i++)
        frame_readable(events[i].data.u32);
}
