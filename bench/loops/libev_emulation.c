/* libev through its emulation of the API of libevent 1.4. */

/* The macros of libev convert implicitly. */
#pragma GCC diagnostic ignored "-Wconversion"
#include <libev/event.h>

/* must follow <libev/event.h> */
#include "bench/loops/libevent_api.h"

void subject_open(enum restart_mode mode, unsigned io_count, unsigned timer_count)
{
    restart_mode = mode;
    base = event_base_new();
    frame_must(base, "event_base_new");
    watchers = frame_storage(io_count, sizeof *watchers);
    timers = frame_storage(timer_count, sizeof *timers);
    for (unsigned i = 0; i < timer_count; i++) {
        evtimer_set(&timers[i], on_timer, NULL);
        frame_must(!event_base_set(base, &timers[i]), "event_base_set");
    }
}

void subject_watch(unsigned i, int fd, uint64_t timeout_ns)
{
    struct event *event = &watchers[i];
    bool is_first = !event_initialized(event);
    if (!is_first)
        event_del(event);
    if (is_first || restart_mode == RESTART_SET) {
        event_set(event, fd, EV_READ | EV_PERSIST, on_readable, event);
        frame_must(!event_base_set(base, event), "event_base_set");
    }
    start_event(event, timeout_ns);
}

void subject_step(void)
{
    frame_must(event_base_loop(base, EVLOOP_NONBLOCK) >= 0, "event_base_loop");
}
