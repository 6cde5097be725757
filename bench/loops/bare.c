/* The lower bound: epoll without a library. Descriptors stay registered; setting one again calls
 * EPOLL_CTL_MOD. */
#include "bench/loops/frame.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS 256
#define WAKE UINT32_MAX

static int set, wake_fd;
static enum restart_mode restart_mode;
static bool *is_watched;

void subject_open(enum restart_mode mode, unsigned io_count, unsigned timer_count)
{
    restart_mode = mode;
    if (restart_mode == RESTART_CHANGELIST || timer_count)
        frame_unsupported();
    set = epoll_create1(0);
    frame_must(set >= 0, "epoll_create1");
    is_watched = frame_storage(io_count, sizeof *is_watched);
}

static void control(int operation, int fd, uint32_t data, unsigned events)
{
    struct epoll_event event = {.events = events, .data.u32 = data};
    frame_must(!epoll_ctl(set, operation, fd, &event), "epoll_ctl");
}

void subject_watch(unsigned i, int fd, uint64_t timeout_ns)
{
    if (timeout_ns)
        frame_unsupported();
    if (!is_watched[i])
        control(EPOLL_CTL_ADD, fd, i, EPOLLIN);
    else if (restart_mode == RESTART_SET)
        control(EPOLL_CTL_MOD, fd, i, EPOLLIN);
    is_watched[i] = true;
}

void subject_set_timer(unsigned i, uint64_t delay_ns)
{
    (void)i, (void)delay_ns;
    frame_unsupported();
}

void subject_open_wake(void)
{
    wake_fd = eventfd(0, EFD_NONBLOCK);
    frame_must(wake_fd >= 0, "eventfd");
    control(EPOLL_CTL_ADD, wake_fd, WAKE, EPOLLIN | EPOLLET);
}

void subject_wake(void)
{
    uint64_t one = 1;
    frame_must(write(wake_fd, &one, sizeof one) == sizeof one, "write");
}

void subject_open_signal(int number)
{
    (void)number;
    frame_unsupported();
}

void subject_step(bool waits)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(set, events, EVENTS, waits ? -1 : 0);
    for (int i = 0; i < count; i++) {
        if (events[i].data.u32 == WAKE)
            frame_woken();
        else
            frame_readable(events[i].data.u32);
    }
}
