#include "loop/state.h"

static void report(struct gs_loop_once *once, unsigned events)
{
    gs_loop_once_stop(once);
    once->callback(once, events);
}

static void on_ready(struct gs_io *io, unsigned events)
{
    report(gs_container_of(io, struct gs_loop_once, io), events);
}

static void on_deadline(struct gs_timer *timer)
{
    report(gs_container_of(timer, struct gs_loop_once, timer), 0);
}

void gs_loop_once_init(struct gs_loop_once *once, struct gs_loop *loop, gs_loop_once_fn *callback)
{
    once->callback = callback;
    gs_io_init(&once->io, loop, on_ready);
    gs_timer_init(&once->timer, loop, on_deadline);
}

int gs_loop_once_start(struct gs_loop_once *once, int fd, unsigned wanted, uint64_t deadline_ns)
{
    if (fd >= 0) {
        gs_io_set(&once->io, fd, wanted);
        int err = gs_io_start(&once->io);
        if (err)
            return err;
    }
    if (deadline_ns == GS_NEVER)
        return 0;
    int err = gs_timer_start(&once->timer, deadline_ns);
    if (err)
        gs_io_stop(&once->io);
    return err;
}

void gs_loop_once_stop(struct gs_loop_once *once)
{
    gs_io_stop(&once->io);
    gs_timer_stop(&once->timer);
}
