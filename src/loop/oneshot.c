#include "loop/state.h"

static void report(struct gs_oneshot *oneshot, unsigned events)
{
    gs_oneshot_stop(oneshot);
    oneshot->callback(oneshot, events);
}

static void on_ready(struct gs_io *io, unsigned events)
{
    report(gs_container_of(io, struct gs_oneshot, io), events);
}

static void on_deadline(struct gs_timer *timer)
{
    report(gs_container_of(timer, struct gs_oneshot, timer), 0);
}

void gs_oneshot_init(struct gs_oneshot *oneshot, struct gs_loop *loop, gs_oneshot_fn *callback)
{
    oneshot->callback = callback;
    gs_io_init(&oneshot->io, loop, on_ready);
    gs_timer_init(&oneshot->timer, loop, on_deadline);
}

int gs_oneshot_start(struct gs_oneshot *oneshot, int fd, unsigned wanted, uint64_t deadline_ns)
{
    CHECKED_START(&oneshot->timer.watcher, KIND_TIMER);
    CHECKED_LOOP_DEADLINE(oneshot->timer.watcher.loop, deadline_ns);
    if (fd >= 0) {
        gs_io_set(&oneshot->io, fd, wanted);
        int err = gs_io_start(&oneshot->io);
        if (err)
            return err;
    }
    if (deadline_ns == GS_NEVER)
        return 0;
    int err = gs_timer_start(&oneshot->timer, deadline_ns);
    if (err)
        gs_io_stop(&oneshot->io);
    return err;
}

void gs_oneshot_stop(struct gs_oneshot *oneshot)
{
    gs_io_stop(&oneshot->io);
    gs_timer_stop(&oneshot->timer);
}
