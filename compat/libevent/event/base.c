/* The life of a base. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/lock.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <event2/event_compat.h>
#include <event2/thread.h>

struct event_base *gs_ev_current_base;

void gs_ev_base_lock(struct event_base *base)
{
    if (base)
        gs_ev_lock(base->lock);
}

void gs_ev_base_unlock(struct event_base *base)
{
    if (base)
        gs_ev_unlock(base->lock);
}

bool gs_ev_is_in_loop(const struct event_base *base)
{
    return !base->is_running || base->owner == gs_ev_thread_id();
}

void gs_ev_wake_other(struct event_base *base)
{
    if (base->is_wake_pending || gs_ev_is_in_loop(base))
        return;
    base->is_wake_pending = true;
    gs_loop_wake(base->loop);
}

int gs_ev_wait_for_other(struct event_base *base)
{
    if (gs_ev_is_in_loop(base))
        return -1;
    base->current_waiters++;
    return gs_ev_cond_wait(base->called, base->lock, NULL);
}

/* The first watcher that is called after a wait. */
static void lock_again(struct gs_check *check)
{
    struct event_base *base = check->watcher.data;
    if (base->is_locked_again)
        return;
    gs_ev_lock(base->lock);
    base->is_locked_again = true;
}

/* Returns 0 or -1. */
static int open_lock(struct event_base *base)
{
    base->lock = gs_ev_lock_new();
    if (!base->lock)
        return -1;
    base->called = gs_ev_cond_new();
    if (!base->called && gs_ev_conds_are_used()) {
        gs_ev_lock_free(base->lock);
        return -1;
    }
    gs_check_init(&base->relock, base->loop, lock_again);
    gs_watcher_set_priority(&base->relock.watcher, 2);
    base->relock.watcher.data = base;
    gs_check_start(&base->relock);
    return 0;
}

struct event_base *event_base_new_with_config(const struct event_config *config)
{
    gs_ev_debug_begin();
    struct event_base *base = gs_ev_calloc(1, sizeof *base);
    if (!base) {
        gs_ev_warn("%s: calloc", __func__);
        return NULL;
    }
    TAILQ_INIT(&base->later);
    gs_ev_init_timers(base);
    base->running_priority = -1;
    base->settlings = 1;
    base->has_ticks = gs_ev_has_ticks();
    base->identities = -1;
    if (gs_ev_configure(base, config)) {
        gs_ev_warnx("%s: no event mechanism available", __func__);
        goto free_base;
    }
    int err = gs_loop_new_with(gs_ev_poller_name(base->method), &base->loop);
    if (err) {
        errno = -err;
        gs_ev_warn("epoll_create");
        goto free_base;
    }
    if (gs_ev_init_queues(base, 1))
        goto free_loop;
    gs_ev_now_us(base);
    if (!(base->flags & EVENT_BASE_FLAG_NOLOCK) && gs_ev_locks_are_used() && open_lock(base))
        goto free_queues;
    return base;

free_queues:
    gs_ev_free(base->queues);
free_loop:
    gs_loop_free(base->loop);
free_base:
    gs_ev_free(base);
    return NULL;
}

struct event_base *event_base_new(void)
{
    return event_base_new_with_config(NULL);
}

/* ---- Tasks ---- */

void gs_ev_task_begin(struct event_base *base, struct gs_ev_task *task)
{
    gs_ev_lock(base->lock);
    gs_ev_count(&base->virtual);
    LIST_INSERT_HEAD(&base->tasks, task, next);
    gs_ev_unlock(base->lock);
}

void gs_ev_task_end(struct event_base *base, struct gs_ev_task *task)
{
    gs_ev_lock(base->lock);
    base->virtual.now--;
    LIST_REMOVE(task, next);
    gs_ev_unlock(base->lock);
}

/* ---- Freeing ---- */

static void delete_inserted(struct event_base *base)
{
    struct event *event;
    for (unsigned i = 0; i < base->chunk_count * GS_EV_CHUNK; i++) {
        struct gs_ev_slot *slot = gs_ev_find_slot(base, (int)i);
        while (slot && (event = gs_ev_first_of(base, slot)))
            gs_ev_del(event, GS_EV_EVEN_IF_FINALIZING);
    }
    while ((event = LIST_FIRST(&base->strays)))
        gs_ev_del(event, GS_EV_EVEN_IF_FINALIZING);
    for (int i = 0; i < GS_EV_SIGNALS; i++) {
        struct event_dlist *events = gs_ev_signal_events(base, i);
        while (events && (event = LIST_FIRST(events)))
            gs_ev_del(event, GS_EV_EVEN_IF_FINALIZING);
    }
}

static void abandon_tasks(struct event_base *base)
{
    struct gs_ev_task *task;
    while ((task = LIST_FIRST(&base->tasks))) {
        gs_ev_task_end(base, task);
        task->abandon(task);
    }
}

static void free_base(struct event_base *base, bool runs_finalizers)
{
    if (!base)
        base = gs_ev_current_base;
    if (!base) {
        gs_ev_warnx("event_base_free_: no base to free");
        return;
    }
    gs_ev_lock(base->lock);
    delete_inserted(base);
    while (gs_ev_count_timers(base))
        gs_ev_del(gs_ev_timer_at(base, 0), GS_EV_EVEN_IF_FINALIZING);
    gs_ev_unlock(base->lock);
    while (gs_ev_clear_queues(base, runs_finalizers))
        ;
    gs_ev_free_onces(base);
    gs_ev_free_signals(base);
    gs_loop_free(base->loop);
    abandon_tasks(base);
    while (gs_ev_clear_queues(base, runs_finalizers))
        ;
    gs_ev_free_slots(base);
    gs_ev_free(base->queues);
    gs_ev_free_timers(base);
    for (unsigned i = 0; i < base->common_timeout_count; i++)
        gs_ev_free(base->common_timeouts[i]);
    gs_ev_lock_free(base->lock);
    gs_ev_cond_free(base->called);
    if (base == gs_ev_current_base)
        gs_ev_current_base = NULL;
    gs_ev_free(base);
}

void event_base_free(struct event_base *base)
{
    free_base(base, true);
}

void event_base_free_nofinalize(struct event_base *base)
{
    free_base(base, false);
}

void libevent_global_shutdown(void)
{
    gs_ev_current_base = NULL;
    gs_ev_debug_shutdown();
    gs_ev_locks_shutdown();
}

/* ---- Other properties ---- */

int event_reinit(struct event_base *base)
{
    gs_ev_lock(base->lock);
    int err = gs_loop_after_fork(base->loop);
    if (err)
        gs_ev_errx(1, "%s: could not reinitialize event mechanism", __func__);
    bool are_open = gs_ev_identify_all(base);
    gs_ev_unlock(base->lock);
    return are_open ? 0 : -1;
}

int evthread_make_base_notifiable(struct event_base *base)
{
    return base ? 0 : -1;
}

int event_base_priority_init(struct event_base *base, int count)
{
    gs_ev_lock(base->lock);
    int result = 0;
    if (base->active.now || count < 1 || count >= EVENT_MAX_PRIORITIES)
        result = -1;
    else if (count != base->queue_count)
        result = gs_ev_init_queues(base, count);
    gs_ev_unlock(base->lock);
    return result;
}

int event_base_get_npriorities(struct event_base *base)
{
    if (!base)
        base = gs_ev_current_base;
    gs_ev_lock(base->lock);
    int count = base->queue_count;
    gs_ev_unlock(base->lock);
    return count;
}

/* ---- The current base ---- */

struct event_base *event_init(void)
{
    struct event_base *base = event_base_new_with_config(NULL);
    if (!base)
        gs_ev_errx(1, "%s: Unable to construct event_base", __func__);
    gs_ev_current_base = base;
    return base;
}

int event_dispatch(void)
{
    return event_loop(0);
}

int event_loop(int flags)
{
    return event_base_loop(gs_ev_current_base, flags);
}

int event_loopexit(const struct timeval *after)
{
    return event_base_loopexit(gs_ev_current_base, after);
}

int event_loopbreak(void)
{
    return event_base_loopbreak(gs_ev_current_base);
}

int event_once(evutil_socket_t fd, short events, void (*callback)(evutil_socket_t, short, void *),
               void *argument, const struct timeval *timeout)
{
    return event_base_once(gs_ev_current_base, fd, events, callback, argument, timeout);
}

const char *event_get_method(void)
{
    return event_base_get_method(gs_ev_current_base);
}

int event_priority_init(int count)
{
    return event_base_priority_init(gs_ev_current_base, count);
}
