/* Periodics, in a heap by their time on the wall clock. A periodic's time is the first one after
 * the moment at which it was computed. So it stays correct until the clock shows an earlier time;
 * then all times are computed again. A jump forward needs no special handling. */
#include "loop/state.h"

#include <errno.h>
#include <gossamer/own_descriptors.h>
#include <gossamer/sys.h>
#include <sys/timerfd.h>
#include <time.h>

static struct gs_periodic *first_of(const struct gs_loop *loop)
{
    return gs_container_of(gs_heap_first(&loop->periodics.heap)->index, struct gs_periodic,
                           watcher.index);
}

static bool is_once(const struct gs_periodic *periodic)
{
    return !periodic->interval_ns && !periodic->reschedule;
}

static uint64_t next_after(struct gs_periodic *periodic, uint64_t wall_ns)
{
    if (is_once(periodic))
        return periodic->offset_ns;
    if (periodic->reschedule) {
        uint64_t at_ns = periodic->reschedule(periodic, wall_ns);
        return at_ns > wall_ns ? at_ns : gs_clock_after(wall_ns, 1);
    }
    uint64_t phase_ns = periodic->offset_ns % periodic->interval_ns;
    if (wall_ns < phase_ns)
        return phase_ns;
    uint64_t since_ns = (wall_ns - phase_ns) % periodic->interval_ns;
    return gs_clock_after(wall_ns - since_ns, periodic->interval_ns);
}

static void note_computed(struct gs_loop *loop, uint64_t wall_ns)
{
    if (loop->periodics.computed_ns < wall_ns)
        loop->periodics.computed_ns = wall_ns;
}

void gs_loop_init_periodics(struct gs_loop *loop)
{
    gs_list_init(&loop->periodics.all);
    gs_loop_init_internal(&loop->periodics.clock_jump, loop);
}

/* The timer itself never expires; setting the clock cancels it, which makes it readable. */
int gs_loop_open_clock_jump(void)
{
    const struct itimerspec never = {.it_value.tv_sec = INT32_MAX};
    int fd = gs_own_descriptor(gs_sys_timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    if (fd < 0)
        return fd;
    int err = gs_sys_timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never);
    if (!err)
        return fd;
    gs_own_descriptor_close(fd);
    return err;
}

void gs_periodic_init(struct gs_periodic *periodic, struct gs_loop *loop, gs_periodic_fn *callback)
{
    CHECKED_INIT(&periodic->watcher);
    *periodic = (struct gs_periodic){
        .watcher = {.loop = loop, .kind = KIND_PERIODIC},
        .callback = callback,
    };
}

/* The part of starting that can fail. */
static int activate(struct gs_periodic *periodic)
{
    struct gs_loop *loop = periodic->watcher.loop;
    struct periodics *periodics = &loop->periodics;
    /* special_count is at least the number of periodics. */
    int err = gs_heap_reserve(&periodics->heap, loop->special_count + 1);
    if (err)
        return err;
    if (!periodics->clock_jump.watcher.active) {
        int fd = gs_loop_open_clock_jump();
        err = fd < 0 ? fd : gs_loop_open_internal(&periodics->clock_jump, fd);
        if (err)
            return err;
    }
    gs_list_append(&periodics->all, &periodic->link);
    loop->special_count++;
    gs_loop_activate(&periodic->watcher);
    return 0;
}

static int start(struct gs_periodic *periodic, uint64_t offset_ns, uint64_t interval_ns,
                 gs_reschedule_fn *reschedule)
{
    struct gs_loop *loop = periodic->watcher.loop;
    if (!periodic->watcher.active) {
        int err = activate(periodic);
        if (err)
            return err;
    }
    gs_loop_clear_pending(&periodic->watcher);
    periodic->offset_ns = offset_ns;
    periodic->interval_ns = interval_ns;
    periodic->reschedule = reschedule;
    uint64_t wall_ns = gs_loop_wall_now(loop);
    periodic->at_ns = next_after(periodic, wall_ns);
    note_computed(loop, wall_ns);
    if (periodic->watcher.index)
        gs_heap_update_key(&loop->periodics.heap, &periodic->watcher.index, periodic->at_ns);
    else
        gs_heap_insert(&loop->periodics.heap, periodic->at_ns, &periodic->watcher.index);
    return 0;
}

int gs_periodic_start(struct gs_periodic *periodic, uint64_t wall_ns)
{
    CHECKED_START(&periodic->watcher, KIND_PERIODIC);
    return start(periodic, wall_ns, 0, NULL);
}

int gs_periodic_start_repeat(struct gs_periodic *periodic, uint64_t offset_ns, uint64_t interval_ns)
{
    CHECKED_START(&periodic->watcher, KIND_PERIODIC);
    return interval_ns ? start(periodic, offset_ns, interval_ns, NULL) : -EINVAL;
}

int gs_periodic_start_with(struct gs_periodic *periodic, gs_reschedule_fn *reschedule)
{
    CHECKED_START(&periodic->watcher, KIND_PERIODIC);
    return start(periodic, 0, 0, reschedule);
}

void gs_periodic_stop(struct gs_periodic *periodic)
{
    CHECKED_STOP(&periodic->watcher);
    struct gs_loop *loop = periodic->watcher.loop;
    if (!periodic->watcher.active)
        return;
    if (periodic->watcher.index)
        gs_heap_remove(&loop->periodics.heap, &periodic->watcher.index);
    gs_list_remove(&periodic->link);
    loop->special_count--;
    gs_loop_deactivate(&periodic->watcher);
    if (!gs_list_is_empty(&loop->periodics.all))
        return;
    loop->periodics.computed_ns = 0;
    gs_loop_close_internal(&loop->periodics.clock_jump);
}

void gs_loop_periodic_expired(struct gs_periodic *periodic)
{
    if (is_once(periodic))
        gs_periodic_stop(periodic);
}

uint64_t gs_loop_next_periodic(struct gs_loop *loop)
{
    if (!loop->periodics.heap.count)
        return GS_NEVER;
    uint64_t at_ns = first_of(loop)->at_ns, wall_ns = gs_loop_wall_now(loop);
    if (at_ns == GS_NEVER)
        return GS_NEVER;
    return at_ns > wall_ns && wall_ns >= loop->periodics.computed_ns ? at_ns - wall_ns : 0;
}

/* The clock was set back. Periodics that are due all the same keep their time. */
static void recompute(struct gs_loop *loop, uint64_t wall_ns)
{
    GS_LIST_FOREACH (link, &loop->periodics.all) {
        struct gs_periodic *periodic = gs_container_of(link, struct gs_periodic, link);
        if (!periodic->watcher.index || periodic->at_ns <= wall_ns)
            continue;
        periodic->at_ns = next_after(periodic, wall_ns);
        gs_heap_update_key(&loop->periodics.heap, &periodic->watcher.index, periodic->at_ns);
    }
}

void gs_loop_collect_periodics(struct gs_loop *loop)
{
    struct periodics *periodics = &loop->periodics;
    uint64_t ignored;
    if (gs_list_is_empty(&periodics->all))
        return;
    if (gs_loop_consume_internal(&periodics->clock_jump.watcher))
        (void)gs_sys_read(periodics->clock_jump.fd, &ignored, sizeof ignored);
    uint64_t wall_ns = gs_loop_wall_now(loop);
    if (wall_ns < periodics->computed_ns)
        recompute(loop, wall_ns);
    periodics->computed_ns = wall_ns;
    while (periodics->heap.count && gs_heap_first(&periodics->heap)->key <= wall_ns) {
        struct gs_periodic *periodic = first_of(loop);
        gs_loop_set_pending(&periodic->watcher, 0);
        if (is_once(periodic)) {
            gs_heap_remove(&periodics->heap, &periodic->watcher.index);
            continue;
        }
        periodic->at_ns = next_after(periodic, wall_ns);
        gs_heap_update_key(&periodics->heap, &periodic->watcher.index, periodic->at_ns);
    }
}
