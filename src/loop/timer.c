/* Timers, in a heap whose keys lag behind: the key of a timer that was moved to a later deadline is
 * put right when it comes to the top. So a timeout that each arriving byte moves on costs the heap
 * nothing until the time that it was first for. */
#include "loop/state.h"

#include <errno.h>

static struct gs_timer *timer_of(const struct gs_heap_node *node)
{
    return gs_container_of(node->place, struct gs_timer, watcher.index);
}

void gs_timer_init(struct gs_timer *timer, struct gs_loop *loop, gs_timer_fn *callback)
{
    *timer = (struct gs_timer){
        .watcher = {.loop = loop, .kind = KIND_TIMER},
        .callback = callback,
    };
}

/* An active timer to another deadline. As no key is later than its timer's deadline, only a timer
 * that is moved to earlier needs a look at its key, which may be far away in memory; the others look
 * at the key of place 0, which is the least. That is a choice of index and not a branch, since none
 * could foretell which way random timeouts move. */
static void move(struct gs_timer *timer, uint64_t deadline_ns)
{
    struct gs_heap *heap = &timer->watcher.loop->timers;
    uint32_t *place = &timer->watcher.index;
    uint32_t looked_at = *place & -(uint32_t)(deadline_ns < timer->deadline_ns);
    timer->deadline_ns = deadline_ns;
    if (UNLIKELY(gs_list_is_linked(&timer->watcher.pending)))
        gs_loop_unpend(&timer->watcher);
    if (UNLIKELY(!*place))
        gs_heap_insert(heap, deadline_ns, place);
    else if (UNLIKELY(deadline_ns < heap->nodes[looked_at].key))
        gs_heap_move(heap, place, deadline_ns);
}

static int start(struct gs_timer *timer, uint64_t deadline_ns, uint64_t interval_ns)
{
    struct gs_loop *loop = timer->watcher.loop;
    if (timer->watcher.active) {
        move(timer, deadline_ns);
    } else {
        int err = gs_heap_reserve(&loop->timers, loop->active_timers + 1);
        if (err)
            return err;
        loop->active_timers++;
        gs_loop_activate(&timer->watcher);
        timer->deadline_ns = deadline_ns;
        gs_heap_insert(&loop->timers, deadline_ns, &timer->watcher.index);
    }
    timer->interval_ns = interval_ns;
    return 0;
}

int gs_timer_start(struct gs_timer *timer, uint64_t deadline_ns)
{
    return start(timer, deadline_ns, 0);
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
        gs_heap_remove(&loop->timers, &timer->watcher.index);
    loop->active_timers--;
    gs_loop_deactivate(&timer->watcher);
}

void gs_loop_timer_fires(struct gs_timer *timer)
{
    if (!timer->interval_ns)
        gs_timer_stop(timer);
}

/* Put the top right, if it is a timer that was moved to later. */
static bool is_top_late(struct gs_loop *loop)
{
    struct gs_heap_node *top = gs_heap_first(&loop->timers);
    struct gs_timer *timer = timer_of(top);
    if (top->key == timer->deadline_ns)
        return false;
    gs_heap_move(&loop->timers, top->place, timer->deadline_ns);
    return true;
}

uint64_t gs_loop_next_timer(struct gs_loop *loop)
{
    if (!loop->timers.count)
        return GS_NEVER;
    while (is_top_late(loop))
        ;
    return gs_heap_first(&loop->timers)->key;
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
    struct gs_heap *heap = &loop->timers;
    while (heap->count && gs_heap_first(heap)->key <= loop->now_ns) {
        if (is_top_late(loop))
            continue;
        struct gs_timer *timer = timer_of(gs_heap_first(heap));
        if (timer->interval_ns) {
            timer->deadline_ns = next_interval(timer, loop->now_ns);
            gs_heap_move(heap, &timer->watcher.index, timer->deadline_ns);
        } else {
            gs_heap_remove(heap, &timer->watcher.index);
        }
        gs_loop_pend(&timer->watcher, 0);
    }
}
