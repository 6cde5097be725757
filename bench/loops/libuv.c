#include "bench/loops/frame.h"

#include <uv.h>

static uv_loop_t loop;
static uv_poll_t *watchers;
static uv_timer_t *timers;

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    frame_must(!status, "a poll");
    unsigned i = (unsigned)(poll - watchers);
    if (frame_has_timeouts)
        subject_set_timer(i, frame_timeout_ns());
    frame_readable(i);
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
    frame_fired();
}

void subject_open(enum restart_mode mode, unsigned io_count, unsigned timer_count)
{
    if (mode != RESTART_SAME)
        frame_unsupported();
    frame_must(!uv_loop_init(&loop), "uv_loop_init");
    watchers = frame_storage(io_count, sizeof *watchers);
    timers = frame_storage(timer_count, sizeof *timers);
    for (unsigned i = 0; i < timer_count; i++)
        uv_timer_init(&loop, &timers[i]);
}

void subject_watch(unsigned i, int fd, uint64_t timeout_ns)
{
    if (timeout_ns)
        subject_set_timer(i, timeout_ns);
    uv_poll_t *poll = &watchers[i];
    if (!poll->loop)
        frame_must(!uv_poll_init(&loop, poll, fd), "uv_poll_init");
    uv_poll_stop(poll);
    frame_must(!uv_poll_start(poll, UV_READABLE, on_readable), "uv_poll_start");
}

/* The resolution of libuv's timers is 1 ms. */
void subject_set_timer(unsigned i, uint64_t delay_ns)
{
    frame_must(!uv_timer_start(&timers[i], on_timer, delay_ns / 1000000, 0), "uv_timer_start");
}

void subject_step(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
}
