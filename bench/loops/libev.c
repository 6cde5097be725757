#include "bench/loops/frame.h"

#define EV_MULTIPLICITY 1
/* The macros of libev convert implicitly. */
#pragma GCC diagnostic ignored "-Wconversion"
#include <ev.h>

static struct ev_loop *loop;
static enum restart_mode restart_mode;
static ev_io *watchers;
static ev_timer *timers;

static void on_readable(struct ev_loop *of, ev_io *io, int events)
{
    (void)of, (void)events;
    unsigned i = (unsigned)(io - watchers);
    if (frame_has_timeouts)
        subject_set_timer(i, frame_timeout_ns());
    frame_readable(i);
}

static void on_timer(struct ev_loop *of, ev_timer *timer, int events)
{
    (void)of, (void)timer, (void)events;
    frame_fired();
}

void subject_open(enum restart_mode mode, unsigned io_count, unsigned timer_count)
{
    restart_mode = mode;
    loop = ev_loop_new(EVBACKEND_EPOLL);
    frame_must(loop, "ev_loop_new");
    watchers = frame_storage(io_count, sizeof *watchers);
    timers = frame_storage(timer_count, sizeof *timers);
    for (unsigned i = 0; i < timer_count; i++)
        ev_init(&timers[i], on_timer);
}

void subject_watch(unsigned i, int fd, uint64_t timeout_ns)
{
    if (timeout_ns)
        subject_set_timer(i, timeout_ns);
    ev_io *io = &watchers[i];
    if (!io->cb)
        ev_io_init(io, on_readable, fd, EV_READ);
    ev_io_stop(loop, io);
    if (restart_mode == RESTART_SET)
        ev_io_set(io, fd, EV_READ);
    ev_io_start(loop, io);
}

/* ev_timer_again moves a timer in one step; a timer without `repeat` still fires only once. */
void subject_set_timer(unsigned i, uint64_t delay_ns)
{
    timers[i].repeat = (double)delay_ns / 1e9;
    ev_timer_again(loop, &timers[i]);
    timers[i].repeat = 0;
}

void subject_step(void)
{
    ev_run(loop, EVRUN_NOWAIT);
}
