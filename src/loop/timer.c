/* Timers, in a timer queue with lazily updated keys: the key of a timer that was moved to a later
 * deadline is updated when the old deadline is due. So moving a timeout for each byte received
 * costs one store per move. */
#include "loop/state.h"

#include <errno.h>

/* The maximum number of timers per iteration. Descriptors must not wait for a million timers, which
 * would also have left the processor's cache by the time they are called. */
#define BATCH_MAX 1024

static struct gs_timer *timer_of(const uint32_t *index)
{
    return gs_container_of(index, struct gs_timer, watcher.index);
}

static uint64_t deadline_of(const uint32_t *index)
{
    return timer_of(index)->deadline_ns;
}

void gs_loop_init_timers(struct gs_loop *loop)
{
    loop->timers.key_of = deadline_of;
}

void gs_timer_init(struct gs_timer *timer, struct gs_loop *loop, gs_timer_fn *callback)
{
    CHECKED_INIT(&timer->watcher);
    *timer = (struct gs_timer){
        .watcher = {.loop = loop, .kind = KIND_TIMER},
        .callback = callback,
    };
}

/* Whether moving an active timer to this deadline requires only a store. No key is later than its
 * timer's deadline, so only a timer that is moved to an earlier deadline must be compared with its
 * key, which may not be in the cache; the others are compared with the key at index 0, which is 0.
 * The index is selected without a branch, which could not be predicted for random timeouts. */
static inline bool needs_only_store(const struct gs_timer *timer, uint64_t deadline_ns)
{
    uint32_t index = timer->watcher.index;
    uint32_t compared = index & -(uint32_t)(deadline_ns < timer->deadline_ns);
    return index && !gs_list_is_linked(&timer->watcher.pending) &&
           deadline_ns >= gs_timer_queue_key(&timer->watcher.loop->timers, compared);
}

/* Move an active timer to another deadline. */
static void move(struct gs_timer *timer, uint64_t deadline_ns)
{
    struct gs_timer_queue *timers = &timer->watcher.loop->timers;
    uint32_t *index = &timer->watcher.index;
    timer->deadline_ns = deadline_ns;
    gs_loop_clear_pending(&timer->watcher);
    if (!*index)
        gs_timer_queue_insert(timers, deadline_ns, index);
    else if (deadline_ns < gs_timer_queue_key(timers, *index))
        gs_timer_queue_decrease_key(timers, index, deadline_ns);
}

static int start(struct gs_timer *timer, uint64_t deadline_ns, uint64_t interval_ns)
{
    struct gs_loop *loop = timer->watcher.loop;
    if (timer->watcher.active) {
        move(timer, deadline_ns);
    } else {
        int err = gs_timer_queue_reserve(&loop->timers, loop->active_timers + 1);
        if (err)
            return err;
        loop->active_timers++;
        gs_loop_activate(&timer->watcher);
        timer->deadline_ns = deadline_ns;
        gs_timer_queue_insert(&loop->timers, deadline_ns, &timer->watcher.index);
    }
    timer->interval_ns = interval_ns;
    return 0;
}

int gs_timer_start(struct gs_timer *timer, uint64_t deadline_ns)
{
    CHECKED_START(&timer->watcher, KIND_TIMER);
    CHECKED_LOOP_DEADLINE(timer->watcher.loop, deadline_ns);
    if (!needs_only_store(timer, deadline_ns))
        return start(timer, deadline_ns, 0);
    timer->deadline_ns = deadline_ns;
    timer->interval_ns = 0;
    return 0;
}

int gs_timer_start_repeat(struct gs_timer *timer, uint64_t first_ns, uint64_t interval_ns)
{
    CHECKED_START(&timer->watcher, KIND_TIMER);
    CHECKED_LOOP_DEADLINE(timer->watcher.loop, first_ns);
    return interval_ns ? start(timer, first_ns, interval_ns) : -EINVAL;
}

void gs_timer_stop(struct gs_timer *timer)
{
    CHECKED_STOP(&timer->watcher);
    struct gs_loop *loop = timer->watcher.loop;
    if (!timer->watcher.active)
        return;
    if (timer->watcher.index)
        gs_timer_queue_remove(&loop->timers, &timer->watcher.index);
    loop->active_timers--;
    gs_loop_deactivate(&timer->watcher);
}

void gs_loop_timer_expired(struct gs_timer *timer)
{
    if (!timer->interval_ns)
        gs_timer_stop(timer);
}

uint64_t gs_loop_next_timer(struct gs_loop *loop)
{
    return gs_timer_queue_next(&loop->timers);
}

/* The first multiple of the timer's interval after now_ns. */
static uint64_t next_interval(const struct gs_timer *timer, uint64_t now_ns)
{
    uint64_t passed = (now_ns - timer->deadline_ns) / timer->interval_ns;
    uint64_t last_ns = timer->deadline_ns + passed * timer->interval_ns;
    return gs_clock_after(last_ns, timer->interval_ns);
}

void gs_loop_collect_timers(struct gs_loop *loop)
{
    struct gs_timer_queue *timers = &loop->timers;
    uint32_t *index;
    for (unsigned i = 0; i < BATCH_MAX && (index = gs_timer_queue_due(timers, loop->now_ns)); i++) {
        struct gs_timer *timer = timer_of(index);
        if (timer->interval_ns)
            timer->deadline_ns = next_interval(timer, loop->now_ns);
        else
            gs_timer_queue_remove(timers, index);
        gs_loop_set_pending(&timer->watcher, 0);
    }
}
