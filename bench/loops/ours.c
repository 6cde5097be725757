#include "bench/loops/frame.h"

#include <gossamer/loop.h>

static struct gs_loop *loop;
static enum restart_mode restart_mode;
static struct gs_io *watchers;
static struct gs_timer *timers;

static void on_readable(struct gs_io *io, unsigned events)
{
    (void)events;
    unsigned i = (unsigned)(io - watchers);
    if (frame_has_timeouts)
        subject_set_timer(i, frame_timeout_ns());
    frame_readable(i);
}

static void on_timer(struct gs_timer *timer)
{
    (void)timer;
    frame_fired();
}

void subject_open(enum restart_mode mode, unsigned io_count, unsigned timer_count)
{
    restart_mode = mode;
    frame_hides_control_calls();
    frame_must(!gs_loop_new(&loop), "gs_loop_new");
    watchers = frame_storage(io_count, sizeof *watchers);
    timers = frame_storage(timer_count, sizeof *timers);
    for (unsigned i = 0; i < timer_count; i++)
        gs_timer_init(&timers[i], loop, on_timer);
}

void subject_watch(unsigned i, int fd, uint64_t timeout_ns)
{
    if (timeout_ns)
        subject_set_timer(i, timeout_ns);
    struct gs_io *io = &watchers[i];
    if (!io->callback) {
        gs_io_init(io, loop, on_readable);
        gs_io_set(io, fd, GS_READ);
    }
    gs_io_stop(io);
    if (restart_mode == RESTART_SET)
        gs_io_set(io, fd, GS_READ);
    frame_must(!gs_io_start(io), "gs_io_start");
}

void subject_set_timer(unsigned i, uint64_t delay_ns)
{
    frame_must(!gs_timer_start(&timers[i], gs_loop_now(loop) + delay_ns), "gs_timer_start");
}

void subject_step(void)
{
    frame_must(gs_loop_run_once(loop, 0) >= 0, "gs_loop_run_once");
}
