/* libev through its emulation of libevent's API, which is that of libevent 1.4. */
#include "bench/loops/frame.h"

/* Its macros see through other types. */
#pragma GCC diagnostic ignored "-Wconversion"
#include <libev/event.h>

static struct event_base *base;
static enum way way;
static struct event *watchers, *timers;
static struct event caught;

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

static void on_signal(int fd, short events, void *argument)
{
    (void)fd, (void)events, (void)argument;
    frame_woken();
}

void subject_open(enum way the_way, unsigned io_count, unsigned timer_count)
{
    way = the_way;
    if (way == WAY_CHANGELIST)
        frame_lacks();
    base = event_base_new();
    frame_must(base, "event_base_new");
    watchers = frame_storage(io_count, sizeof *watchers);
    timers = frame_storage(timer_count, sizeof *timers);
    for (unsigned i = 0; i < timer_count; i++) {
        evtimer_set(&timers[i], on_timer, NULL);
        frame_must(!event_base_set(base, &timers[i]), "event_base_set");
    }
}

void subject_watch(unsigned i, int fd)
{
    struct event *event = &watchers[i];
    bool is_first = !event_initialized(event);
    if (!is_first)
        event_del(event);
    if (is_first || way == WAY_ANEW) {
        event_set(event, fd, EV_READ | EV_PERSIST, on_readable, event);
        frame_must(!event_base_set(base, event), "event_base_set");
    }
    frame_must(!event_add(event, NULL), "event_add");
}

void subject_set_timer(unsigned i, uint64_t delay_ns)
{
    struct timeval delay = {(time_t)(delay_ns / 1000000000),
                            (suseconds_t)(delay_ns % 1000000000 / 1000)};
    frame_must(!event_add(&timers[i], &delay), "event_add");
}

/* event_active may be called by the loop's thread alone. */
void subject_open_wake(void)
{
    frame_lacks();
}

void subject_wake(void)
{
    frame_lacks();
}

void subject_open_signal(int number)
{
    signal_set(&caught, number, on_signal, NULL);
    frame_must(!event_base_set(base, &caught), "event_base_set");
    frame_must(!signal_add(&caught, NULL), "signal_add");
}

void subject_step(bool waits)
{
    frame_must(event_base_loop(base, waits ? EVLOOP_ONCE : EVLOOP_NONBLOCK) >= 0,
               "event_base_loop");
}
