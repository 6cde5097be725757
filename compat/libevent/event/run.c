/* The loop: it waits, collects what has happened, and calls what is active, by priority. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/lock.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <limits.h>
#include <time.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

/* How long a distance between the clocks is taken as it was measured. */
#define WALL_OFFSET_US (5 * UINT64_C(1000000))

/* ---- Time ---- */

static uint64_t clock_us(void)
{
    return gs_clock_now() / 1000;
}

/* Reading the clock takes longer than adding a timeout. A program that adds many in a row, outside
 * of the loop, has it read again only when the processor's counter has advanced by this much, which
 * is at most 4 us. */
#define TICKS_PER_READ 4000

#ifdef __x86_64__
/* Whether the counter runs at the same rate always. */
bool gs_ev_has_ticks(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
}

static uint64_t ticks(void)
{
    return __rdtsc();
}
#else
bool gs_ev_has_ticks(void)
{
    return false;
}

static uint64_t ticks(void)
{
    return 0;
}
#endif

static void measure_wall_offset(struct event_base *base, uint64_t now_us)
{
    if (base->wall_offset_since_us && now_us - base->wall_offset_since_us < WALL_OFFSET_US)
        return;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    base->wall_offset_us = wall.tv_sec * 1000000 + wall.tv_nsec / 1000 - (int64_t)now_us;
    base->wall_offset_since_us = now_us;
}

static uint64_t read_clock(struct event_base *base, uint64_t now_ticks)
{
    uint64_t now_us = clock_us();
    measure_wall_offset(base, now_us);
    base->read_ticks = now_ticks;
    base->read_us = now_us;
    return now_us;
}

uint64_t gs_ev_read_now_us(struct event_base *base)
{
    if (!base->has_ticks)
        return read_clock(base, 0);
    uint64_t now_ticks = ticks();
    bool is_recent = now_ticks - base->read_ticks < TICKS_PER_READ;
    return is_recent ? base->read_us : read_clock(base, now_ticks);
}

uint64_t gs_ev_base_now_ns(struct event_base *base)
{
    gs_ev_lock(base->lock);
    uint64_t now_us = gs_ev_now_us(base);
    gs_ev_unlock(base->lock);
    return now_us * 1000;
}

static void cache_time(struct event_base *base, uint64_t now_us)
{
    base->now_us = 0;
    if (base->flags & EVENT_BASE_FLAG_NO_CACHE_TIME)
        return;
    measure_wall_offset(base, now_us);
    base->now_us = now_us;
}

static void to_timeval(uint64_t us, struct timeval *ret_time)
{
    ret_time->tv_sec = (time_t)(us / 1000000);
    ret_time->tv_usec = (suseconds_t)(us % 1000000);
}

int event_gettime_monotonic(struct event_base *base, struct timeval *tp)
{
    if (!base || !tp)
        return -1;
    to_timeval(clock_us(), tp);
    return 0;
}

int event_base_gettimeofday_cached(struct event_base *base, struct timeval *tv)
{
    if (!base)
        base = gs_ev_current_base;
    if (!base)
        return gettimeofday(tv, NULL);
    gs_ev_lock(base->lock);
    int result = 0;
    if (base->now_us)
        to_timeval(base->now_us + (uint64_t)base->wall_offset_us, tv);
    else
        result = gettimeofday(tv, NULL);
    gs_ev_unlock(base->lock);
    return result;
}

int event_base_update_cache_time(struct event_base *base)
{
    if (!base)
        base = gs_ev_current_base;
    if (!base)
        return -1;
    gs_ev_lock(base->lock);
    if (base->is_running)
        cache_time(base, clock_us());
    gs_ev_unlock(base->lock);
    return 0;
}

/* ---- Calling ---- */

/* The lock is released during the call. */
static void call_event(struct event_base *base, struct event *event)
{
    event_callback_fn callback = event->ev_evcallback.evcb_cb_union.evcb_callback;
    int fd = event->ev_fd;
    short result = event->ev_res;
    void *argument = event->ev_evcallback.evcb_arg;
    gs_ev_unlock(base->lock);
    callback(fd, result, argument);
}

/* A signal's event is called as often as the signal was caught, unless it is deleted meanwhile. */
static void call_signal(struct event_base *base, struct event *event)
{
    event_callback_fn callback = event->ev_evcallback.evcb_cb_union.evcb_callback;
    int number = event->ev_fd;
    short result = event->ev_res;
    void *argument = event->ev_evcallback.evcb_arg;
    short calls = event->ev_ncalls;
    if (calls)
        event->ev_pncalls = &calls;
    while (calls) {
        calls--;
        event->ev_ncalls = calls;
        if (!calls)
            event->ev_pncalls = NULL;
        gs_ev_unlock(base->lock);
        callback(number, result, argument);
        gs_ev_lock(base->lock);
        if (base->has_broken) {
            if (calls)
                event->ev_pncalls = NULL;
            break;
        }
    }
    gs_ev_unlock(base->lock);
}

static void call_persistent(struct event_base *base, struct event *event)
{
    if (event->ev_interval) {
        uint64_t now_us = gs_ev_now_us(base);
        uint64_t from_us = event->ev_res & EV_TIMEOUT ? gs_ev_deadline_us(event) : now_us;
        uint64_t deadline_us = from_us + event->ev_interval;
        if (deadline_us < now_us)
            deadline_us = now_us + event->ev_interval;
        gs_ev_add(event, NULL, deadline_us);
    }
    call_event(base, event);
}

static void finalize_event(struct event_base *base, struct event *event, bool is_freed)
{
    event_finalize_callback_fn finalizer = event->ev_evcallback.evcb_cb_union.evcb_evfinalize;
    base->current = NULL;
    gs_ev_unlock(base->lock);
    finalizer(event, event->ev_evcallback.evcb_arg);
    if (!is_freed)
        return;
    gs_ev_debug_unassigned(event);
    gs_ev_free(event);
}

/* Returns without the lock. */
static void call(struct event_base *base, struct event_callback *callback)
{
    struct event *event = gs_ev_event_of(callback);
    switch (callback->evcb_closure) {
    case GS_EV_CALL:
        call_event(base, event);
        break;
    case GS_EV_CALL_SIGNAL:
        call_signal(base, event);
        break;
    case GS_EV_CALL_PERSISTENT:
        call_persistent(base, event);
        break;
    case GS_EV_CALL_SELF: {
        gs_ev_callback_fn *fn = callback->evcb_cb_union.evcb_selfcb;
        void *argument = callback->evcb_arg;
        gs_ev_unlock(base->lock);
        fn(callback, argument);
        break;
    }
    case GS_EV_FINALIZE_CALLBACK: {
        gs_ev_callback_fn *fn = callback->evcb_cb_union.evcb_cbfinalize;
        void *argument = callback->evcb_arg;
        base->current = NULL;
        gs_ev_unlock(base->lock);
        fn(callback, argument);
        break;
    }
    default:
        finalize_event(base, event, callback->evcb_closure == GS_EV_FINALIZE_AND_FREE);
    }
}

static void take(struct event_base *base, struct event_callback *callback)
{
    struct event *event = gs_ev_event_of(callback);
    bool is_kept = !(callback->evcb_flags & EVLIST_INIT) || event->ev_events & EV_PERSIST ||
                   callback->evcb_flags & EVLIST_FINALIZING;
    if (is_kept)
        gs_ev_unqueue(base, callback);
    else
        gs_ev_del(event, GS_EV_NEVER_BLOCKS);
}

static bool is_over(struct event_base *base, uint64_t end_us)
{
    if (end_us == UINT64_MAX)
        return false;
    uint64_t now_us = clock_us();
    cache_time(base, now_us);
    return now_us >= end_us;
}

/* Returns the number of callbacks that the program knows, or -1 after a break. */
static int call_queue(struct event_base *base, struct gs_ev_queue *queue, int max_calls,
                      uint64_t end_us)
{
    int count = 0;
    struct event_callback *callback;
    while ((callback = TAILQ_FIRST(queue))) {
        take(base, callback);
        if (!(callback->evcb_flags & EVLIST_INTERNAL))
            count++;
        base->current = callback;
        base->current_waiters = 0;
        call(base, callback);
        gs_ev_lock(base->lock);
        base->current = NULL;
        if (base->current_waiters) {
            base->current_waiters = 0;
            gs_ev_cond_signal(base->called, true);
        }
        if (base->has_broken)
            return -1;
        if (count >= max_calls || (count && is_over(base, end_us)) || base->must_continue)
            break;
    }
    return count;
}

/* Only the most urgent callbacks: what has happened meanwhile may be more urgent than others. */
static int call_active(struct event_base *base)
{
    int count = 0;
    uint64_t end_us = UINT64_MAX;
    if (base->limits.max_us != UINT64_MAX) {
        cache_time(base, clock_us());
        end_us = gs_ev_now_us(base) + base->limits.max_us;
    }
    for (int i = 0; i < base->queue_count && !count; i++) {
        if (TAILQ_EMPTY(&base->queues[i]))
            continue;
        base->running_priority = i;
        bool is_limited = i >= base->limits.min_priority;
        count =
            call_queue(base, &base->queues[i], is_limited ? base->limits.max_callbacks : INT_MAX,
                       is_limited ? end_us : UINT64_MAX);
    }
    base->running_priority = -1;
    return count;
}

/* ---- Waiting ---- */

static uint64_t deadline_ns(struct event_base *base, int flags)
{
    if (base->active.now || flags & EVLOOP_NONBLOCK)
        return 0;
    if (!gs_ev_count_timers(base))
        return GS_NEVER;
    return gs_ev_next_timer_us(base) * 1000;
}

static int wait_for_events(struct event_base *base, int flags)
{
    gs_ev_settle_descriptors(base);
    uint64_t until_ns = deadline_ns(base, flags);
    base->now_us = 0;
    base->is_locked_again = !base->lock;
    gs_ev_unlock(base->lock);
    int result = gs_loop_run_once(base->loop, until_ns);
    if (!base->is_locked_again)
        gs_ev_lock(base->lock);
    gs_ev_see_files(base);
    base->is_wake_pending = false;
    return result;
}

static void collect_timeouts(struct event_base *base)
{
    if (!gs_ev_count_timers(base))
        return;
    uint64_t now_us = gs_ev_now_us(base);
    struct event *event;
    while ((event = gs_ev_due_timer(base, now_us))) {
        gs_ev_del(event, GS_EV_NEVER_BLOCKS);
        gs_ev_activate(event, EV_TIMEOUT, 1);
    }
}

/* Returns whether the loop is to end; *result is what it returns then. */
static bool run_iteration(struct event_base *base, int flags, int *result)
{
    base->must_continue = false;
    base->deferred = 0;
    if (base->has_exited || base->has_broken)
        return true;
    bool is_empty = base->added.now <= 0 && base->virtual.now <= 0 && !base->active.now;
    if (is_empty && !(flags & EVLOOP_NO_EXIT_ON_EMPTY)) {
        *result = 1;
        return true;
    }
    gs_ev_activate_later(base);
    if (wait_for_events(base, flags) < 0) {
        *result = -1;
        return true;
    }
    cache_time(base, gs_loop_now(base->loop) / 1000);
    gs_ev_collect_signals(base);
    collect_timeouts(base);
    if (!base->active.now)
        return flags & EVLOOP_NONBLOCK;
    int count = call_active(base);
    return flags & EVLOOP_ONCE && !base->active.now && count;
}

int event_base_loop(struct event_base *base, int flags)
{
    gs_ev_lock(base->lock);
    if (base->is_running) {
        gs_ev_warnx("%s: reentrant invocation.  Only one event_base_loop can run on each "
                    "event_base at once.",
                    __func__);
        gs_ev_unlock(base->lock);
        return -1;
    }
    base->is_running = true;
    base->owner = gs_ev_thread_id();
    base->now_us = 0;
    base->has_exited = base->has_broken = false;
    gs_ev_take_signals(base);
    int result = 0;
    while (!run_iteration(base, flags, &result))
        ;
    base->now_us = 0;
    base->is_running = false;
    gs_ev_unlock(base->lock);
    return result;
}

int event_base_dispatch(struct event_base *base)
{
    return event_base_loop(base, 0);
}

/* ---- Ending ---- */

static void on_exit_time(evutil_socket_t fd, short events, void *argument)
{
    (void)fd, (void)events;
    struct event_base *base = argument;
    base->has_exited = true;
}

int event_base_loopexit(struct event_base *base, const struct timeval *after)
{
    return event_base_once(base, -1, EV_TIMEOUT, on_exit_time, base, after);
}

/* Set one of the base's flags, and have the loop look at it. */
static int set_flag(struct event_base *base, bool *flag)
{
    gs_ev_lock(base->lock);
    *flag = true;
    gs_ev_wake(base);
    gs_ev_unlock(base->lock);
    return 0;
}

int event_base_loopbreak(struct event_base *base)
{
    return base ? set_flag(base, &base->has_broken) : -1;
}

int event_base_loopcontinue(struct event_base *base)
{
    return base ? set_flag(base, &base->must_continue) : -1;
}

static bool get_flag(struct event_base *base, const bool *flag)
{
    gs_ev_lock(base->lock);
    bool is_set = *flag;
    gs_ev_unlock(base->lock);
    return is_set;
}

int event_base_got_exit(struct event_base *base)
{
    return get_flag(base, &base->has_exited);
}

int event_base_got_break(struct event_base *base)
{
    return get_flag(base, &base->has_broken);
}
