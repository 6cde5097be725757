/* Code for both libevent and libev's emulation of it. Include it once, after the header that
 * declares `struct event`. */
#ifndef GS_BENCH_LOOPS_LIBEVENT_API_H
#define GS_BENCH_LOOPS_LIBEVENT_API_H

#include "bench/loops/frame.h"

static struct event_base *base;
static enum restart_mode restart_mode;
static struct event *watchers, *timers;

static struct timeval timeval_of(uint64_t ns)
{
    return (struct timeval){(time_t)(ns / 1000000000), (suseconds_t)(ns % 1000000000 / 1000)};
}

/* Start an event that is not active, with an idle timeout of its own unless timeout_ns is 0. */
static void start_event(struct event *event, uint64_t timeout_ns)
{
    struct timeval timeout = timeval_of(timeout_ns);
    frame_must(!event_add(event, timeout_ns ? &timeout : NULL), "event_add");
}

/* An event has no call that restarts its timeout alone: libev's authors delete and add it again. */
static void on_readable(int fd, short events, void *argument)
{
    (void)fd;
    struct event *event = argument;
    frame_must(!(events & EV_TIMEOUT), "no timeout");
    if (frame_has_timeouts) {
        event_del(event);
        start_event(event, frame_timeout_ns());
    }
    frame_readable((unsigned)(event - watchers));
}

static void on_timer(int fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
    frame_fired();
}

void subject_set_timer(unsigned i, uint64_t delay_ns)
{
    struct timeval delay = timeval_of(delay_ns);
    frame_must(!event_add(&timers[i], &delay), "event_add");
}

#endif
