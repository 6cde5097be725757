/* Code for both libevent and libev's emulation of it. Include it once, after the header that
 * declares `struct event`. */
#ifndef GS_BENCH_LOOPS_LIBEVENT_API_H
#define GS_BENCH_LOOPS_LIBEVENT_API_H

#include "bench/loops/frame.h"

static struct event_base *base;
static enum restart_mode restart_mode;
static struct event *watchers, *timers;
static struct event caught; /* the event for a signal */

static void on_readable(int fd, short events, void *argument)
{
    (void)fd, (void)events;
    unsigned i = (unsigned)((struct event *)argument - watchers);
    if (frame_has_timeouts)
        subject_set_timer(i, frame_timeout_ns());
    frame_readable(i);
}

static void on_timer(int fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
    frame_fired();
}

static void on_woken(int fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
    frame_woken();
}

void subject_set_timer(unsigned i, uint64_t delay_ns)
{
    struct timeval delay = {(time_t)(delay_ns / 1000000000),
                            (suseconds_t)(delay_ns % 1000000000 / 1000)};
    frame_must(!event_add(&timers[i], &delay), "event_add");
}

#endif
