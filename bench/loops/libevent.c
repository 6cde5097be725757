#include <event2/event.h>
#include <event2/event_struct.h>

/* must follow <event2/event.h> */
#include "bench/loops/libevent_api.h"

void subject_open(enum restart_mode mode, unsigned io_count, unsigned timer_count)
{
    restart_mode = mode;
    base = event_base_new();
    frame_must(base, "event_base_new");
    watchers = frame_storage(io_count, sizeof *watchers);
    timers = frame_storage(timer_count, sizeof *timers);
    for (unsigned i = 0; i < timer_count; i++)
        evtimer_assign(&timers[i], base, on_timer, NULL);
}

void subject_watch(unsigned i, int fd, uint64_t timeout_ns)
{
    struct event *event = &watchers[i];
    bool is_first = !event_initialized(event);
    if (!is_first)
        event_del(event);
    if (is_first || restart_mode == RESTART_SET)
        event_assign(event, base, fd, EV_READ | EV_PERSIST, on_readable, event);
    start_event(event, timeout_ns);
}

void subject_step(void)
{
    frame_must(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0, "event_base_loop");
}
