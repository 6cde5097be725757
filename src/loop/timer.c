/* Timers, on an agenda whose keys lag behind: the key of a timer that was moved to a later deadline
 * is put right when its turn comes. So a timeout that each arriving byte moves on costs nothing but
 * a store until the time that it was first for. */
#include "loop/state.h"

#include <errno.h>

/* An iteration collects this many at the most, as descriptors must not wait for a million of them;
 * nor would they still be in the processor's cache when they are called. */
#define MOST_AT_ONCE 1024

static struct gs_timer *timer_of(const uint32_t *place)
{
    return gs_container_of(place, struct gs_timer, watcher.index);
}

static uint64_t deadline_of(const uint32_t *place)
{
    return timer_of(place)->deadline_ns;
}

void gs_loop_init_timers(struct gs_loop *loop)
{
    loop->timers.key_of = deadline_of;
}

void gs_timer_init(struct gs_timer *timer, struct gs_loop *loop, gs_timer_fn *callback)
{
    *timer = (struct gs_timer){
        .watcher = {.loop = loop, .kind = KIND_TIMER},
        .callback = callback,
    };
}

/* Whether nothing must be done for an active timer to have this deadline, but to store it. As no key
 * is later than its timer's deadline, only a timer that is moved to earlier needs a look at its key,
 * which may be far away in memory; the others look at the key of place 0, which is the least. That
 * is a choice of index and not a branch, since none could foretell which way random timeouts move. */
static inline bool is_stored_only(const struct gs_timer *timer, uint64_t deadline_ns)
{
    uint32_t place = timer->watcher.index;
    uint32_t looked_at = place & -(uint32_t)(deadline_ns < timer->deadline_ns);
    return place && !gs_list_is_linked(&timer->watcher.pending) &&
           deadline_ns >= gs_agenda_key(&timer->watcher.loop->timers, looked_at);
}

/* An active timer to another deadline. */
static void move(struct gs_timer *timer, uint64_t deadline_ns)
{
    struct gs_agenda *timers = &timer->watcher.loop->timers;
    uint32_t *place = &timer->watcher.index;
    timer->deadline_ns = deadline_ns;
    gs_loop_unpend(&timer->watcher);
    if (!*place)
        gs_agenda_insert(timers, deadline_ns, place);
    else if (deadline_ns < gs_agenda_key(timers, *place))
        gs_agenda_hasten(timers, place, deadline_ns);
}

static int start(struct gs_timer *timer, uint64_t deadline_ns, uint64_t interval_ns)
{
    struct gs_loop *loop = timer->watcher.loop;
    if (timer->watcher.active) {
        move(timer, deadline_ns);
    } else {
        int err = gs_agenda_reserve(&loop->timers, loop->active_timers + 1);
        if (err)
            return err;
        loop->active_timers++;
        gs_loop_activate(&timer->watcher);
        timer->deadline_ns = deadline_ns;
        gs_agenda_insert(&loop->timers, deadline_ns, &timer->watcher.index);
    }
    timer->interval_ns = interval_ns;
    return 0;
}

int gs_timer_start(struct gs_timer *timer, uint64_t deadline_ns)
{
    if (!is_stored_only(timer, deadline_ns))
        return start(timer, deadline_ns, 0);
    timer->deadline_ns = deadline_ns;
    timer->interval_ns = 0;
    return 0;
}

int gs_timer_start_every(struct gs_timer *timer, uint64_t first_ns, uint64_t interval_ns)
{
    return interval_ns ? start(timer, first_ns, interval_ns) : -EINVAL;
}

void gs_timer_stop(struct gs_timer *timer)
{
    struct gs_loop *loop = timer->watcher.loop;
    if (!timer->watcher.active)
        return;
    if (timer->watcher.index)
        gs_agenda_remove(&loop->timers, &timer->watcher.index);
    loop->active_timers--;
    gs_loop_deactivate(&timer->watcher);
}

void gs_loop_timer_fires(struct gs_timer *timer)
{
    if (!timer->interval_ns)
        gs_timer_stop(timer);
}

uint64_t gs_loop_next_timer(struct gs_loop *loop)
{
    return gs_agenda_next(&loop->timers);
}

/* The next of the timer's intervals that is still to come. */
static uint64_t next_interval(const struct gs_timer *timer, uint64_t now_ns)
{
    uint64_t passed = (now_ns - timer->deadline_ns) / timer->interval_ns;
    uint64_t last_ns = timer->deadline_ns + passed * timer->interval_ns;
    return gs_clock_after(last_ns, timer->interval_ns);
}

void gs_loop_collect_timers(struct gs_loop *loop)
{
    struct gs_agenda *timers = &loop->timers;
    uint32_t *place;
    for (unsigned i = 0; i < MOST_AT_ONCE && (place = gs_agenda_due(timers, loop->now_ns)); i++) {
        struct gs_timer *timer = timer_of(place);
        if (timer->interval_ns)
            timer->deadline_ns = next_interval(timer, loop->now_ns);
        else
            gs_agenda_remove(timers, place);
        gs_loop_pend(&timer->watcher, 0);
    }
}
