#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/thread.h>

/* must follow <event2/event.h> */
#include "bench/loops/libevent_api.h"

static struct event async;

void subject_open(enum restart_mode mode, unsigned io_count, unsigned timer_count)
{
    restart_mode = mode;
    struct event_config *config = event_config_new();
    frame_must(config, "event_config_new");
    int flags = restart_mode == RESTART_CHANGELIST ? EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST : 0;
    frame_must(!event_config_set_flag(config, flags), "event_config_set_flag");
    base = event_base_new_with_config(config);
    frame_must(base, "event_base_new_with_config");
    event_config_free(config);
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

void subject_open_wake(void)
{
    event_base_free(base);
    frame_must(!evthread_use_pthreads(), "evthread_use_pthreads");
    base = event_base_new();
    frame_must(base, "event_base_new");
    /* Without an event, the loop would return. */
    event_assign(&async, base, -1, EV_PERSIST, on_woken, NULL);
    struct timeval far = {3600, 0};
    frame_must(!event_add(&async, &far), "event_add");
}

void subject_wake(void)
{
    event_active(&async, EV_READ, 1);
}

void subject_open_signal(int number)
{
    evsignal_assign(&caught, base, number, on_woken, NULL);
    frame_must(!event_add(&caught, NULL), "event_add");
}

void subject_step(bool waits)
{
    frame_must(event_base_loop(base, waits ? EVLOOP_ONCE : EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0,
               "event_base_loop");
}
