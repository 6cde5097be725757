/* What is active: a queue for each priority, and one of what becomes active in the next iteration.
 */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/lock.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>

/* So many callbacks that are no events may become active in an iteration; more wait for the next
 * one, so that callbacks that activate each other do not keep the loop from waiting. */
#define MAX_DEFERRED 32

int gs_ev_init_queues(struct event_base *base, int count)
{
    struct gs_ev_queue *queues = gs_ev_calloc((size_t)count, sizeof *queues);
    if (!queues)
        return -1;
    gs_ev_free(base->queues);
    base->queues = queues;
    base->queue_count = count;
    for (int i = 0; i < count; i++)
        TAILQ_INIT(&queues[i]);
    return 0;
}

/* An event that the library itself adds does not count. */
static void count_added(struct event_base *base, const struct event_callback *callback)
{
    if (!(callback->evcb_flags & EVLIST_INTERNAL))
        gs_ev_count(&base->added);
}

static struct gs_ev_queue *queue_of(struct event_base *base, struct event_callback *callback)
{
    if (callback->evcb_pri >= base->queue_count)
        callback->evcb_pri = (ev_uint8_t)(base->queue_count - 1);
    return &base->queues[callback->evcb_pri];
}

void gs_ev_unqueue_active(struct event_base *base, struct event_callback *callback)
{
    struct gs_ev_queue *queue =
        callback->evcb_flags & EVLIST_ACTIVE ? queue_of(base, callback) : &base->later;
    TAILQ_REMOVE(queue, callback, evcb_active_next);
    if (!(callback->evcb_flags & EVLIST_INTERNAL))
        base->added.now--;
    base->active.now--;
    callback->evcb_flags &= ~GS_EV_ACTIVE;
}

static void enqueue(struct event_base *base, struct event_callback *callback, short flag)
{
    count_added(base, callback);
    gs_ev_count(&base->active);
    callback->evcb_flags |= flag;
    struct gs_ev_queue *queue = flag == EVLIST_ACTIVE ? queue_of(base, callback) : &base->later;
    TAILQ_INSERT_TAIL(queue, callback, evcb_active_next);
}

bool gs_ev_queue_active(struct event_base *base, struct event_callback *callback)
{
    if (callback->evcb_flags & (EVLIST_FINALIZING | EVLIST_ACTIVE))
        return false;
    bool is_new = !(callback->evcb_flags & EVLIST_ACTIVE_LATER);
    gs_ev_unqueue(base, callback);
    enqueue(base, callback, EVLIST_ACTIVE);
    gs_ev_wake(base);
    return is_new;
}

void gs_ev_activate_later(struct event_base *base)
{
    struct event_callback *callback;
    while ((callback = TAILQ_FIRST(&base->later))) {
        TAILQ_REMOVE(&base->later, callback, evcb_active_next);
        callback->evcb_flags =
            (short)((callback->evcb_flags & ~EVLIST_ACTIVE_LATER) | EVLIST_ACTIVE);
        TAILQ_INSERT_TAIL(queue_of(base, callback), callback, evcb_active_next);
        base->deferred += callback->evcb_closure == GS_EV_CALL_SELF;
    }
}

/* ---- Callbacks that are no events ---- */

void gs_ev_callback_init(struct event_callback *callback, unsigned priority, gs_ev_callback_fn *fn,
                         void *argument)
{
    *callback = (struct event_callback){
        .evcb_pri = (ev_uint8_t)priority,
        .evcb_closure = GS_EV_CALL_SELF,
        .evcb_cb_union.evcb_selfcb = fn,
        .evcb_arg = argument,
    };
}

void gs_ev_callback_set_priority(struct event_callback *callback, unsigned priority)
{
    if (!(callback->evcb_flags & GS_EV_ACTIVE))
        callback->evcb_pri = (ev_uint8_t)priority;
}

bool gs_ev_callback_schedule(struct event_base *base, struct event_callback *callback)
{
    if (!base)
        base = gs_ev_current_base;
    gs_ev_base_lock(base);
    bool is_new = false;
    if (base->deferred <= MAX_DEFERRED) {
        is_new = gs_ev_queue_active(base, callback);
        base->deferred += is_new;
    } else if (!(callback->evcb_flags & (EVLIST_FINALIZING | GS_EV_ACTIVE))) {
        is_new = true;
        enqueue(base, callback, EVLIST_ACTIVE_LATER);
        gs_ev_wake(base);
    }
    gs_ev_base_unlock(base);
    return is_new;
}

static void cancel(struct event_base *base, struct event_callback *callback)
{
    if (callback->evcb_flags & EVLIST_FINALIZING)
        return;
    if (callback->evcb_flags & EVLIST_INIT)
        gs_ev_del(gs_ev_event_of(callback), GS_EV_BLOCKS_UNLESS_FINALIZED);
    else
        gs_ev_unqueue(base, callback);
}

void gs_ev_finalize(struct event_base *base, struct event_callback *callback, gs_ev_callback_fn *fn)
{
    if (callback->evcb_flags & EVLIST_INIT)
        gs_ev_del(gs_ev_event_of(callback), GS_EV_NEVER_BLOCKS);
    else
        gs_ev_unqueue(base, callback);
    callback->evcb_closure = GS_EV_FINALIZE_CALLBACK;
    callback->evcb_cb_union.evcb_cbfinalize = fn;
    gs_ev_queue_active(base, callback);
    callback->evcb_flags |= EVLIST_FINALIZING;
}

void gs_ev_callbacks_finalize(struct event_base *base, struct event_callback **callbacks, int count,
                              gs_ev_callback_fn *fn)
{
    if (!base)
        base = gs_ev_current_base;
    gs_ev_base_lock(base);
    bool is_one_running = false;
    for (int i = 0; i < count; i++) {
        if (callbacks[i] == base->current) {
            gs_ev_finalize(base, callbacks[i], fn);
            is_one_running = true;
        } else {
            cancel(base, callbacks[i]);
        }
    }
    if (!is_one_running)
        gs_ev_finalize(base, callbacks[0], fn);
    gs_ev_base_unlock(base);
}

/* ---- The end of a base ---- */

/* In event_base_free, what remains is not called; only finalizers are. */
static void run_finalizer(struct event_callback *callback)
{
    struct event *event = gs_ev_event_of(callback);
    switch (callback->evcb_closure) {
    case GS_EV_FINALIZE_EVENT:
        callback->evcb_cb_union.evcb_evfinalize(event, callback->evcb_arg);
        break;
    case GS_EV_FINALIZE_AND_FREE:
        callback->evcb_cb_union.evcb_evfinalize(event, callback->evcb_arg);
        gs_ev_free(event);
        break;
    case GS_EV_FINALIZE_CALLBACK:
        callback->evcb_cb_union.evcb_cbfinalize(callback, callback->evcb_arg);
        break;
    default:
        break;
    }
}

static int clear_callback(struct event_base *base, struct event_callback *callback,
                          bool runs_finalizers)
{
    int result = 0;
    if (!(callback->evcb_flags & EVLIST_INIT)) {
        gs_ev_unqueue(base, callback);
        result = 1;
    } else if (callback->evcb_flags & EVLIST_INTERNAL) {
        gs_ev_unqueue(base, callback);
    } else {
        gs_ev_del(gs_ev_event_of(callback), GS_EV_EVEN_IF_FINALIZING);
        result = 1;
    }
    if (runs_finalizers && callback->evcb_flags & EVLIST_FINALIZING)
        run_finalizer(callback);
    return result;
}

int gs_ev_clear_queues(struct event_base *base, bool runs_finalizers)
{
    int count = 0;
    struct event_callback *callback;
    for (int i = 0; i < base->queue_count; i++)
        while ((callback = TAILQ_FIRST(&base->queues[i])))
            count += clear_callback(base, callback, runs_finalizers);
    while ((callback = TAILQ_FIRST(&base->later)))
        count += clear_callback(base, callback, runs_finalizers);
    return count;
}
