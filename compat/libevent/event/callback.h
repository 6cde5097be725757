/* Callbacks that a base calls in its loop, beside those of events: what buffers and bufferevents
 * defer. The storage is a struct event_callback in the object that the callback is about. */
#ifndef GS_COMPAT_LIBEVENT_CALLBACK_H
#define GS_COMPAT_LIBEVENT_CALLBACK_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

typedef void gs_ev_callback_fn(struct event_callback *callback, void *argument);

/* priority: as of events; it is limited to those that the base has when it is scheduled. */
void gs_ev_callback_init(struct event_callback *callback, unsigned priority, gs_ev_callback_fn *fn,
                         void *argument);
void gs_ev_callback_set_priority(struct event_callback *callback, unsigned priority);

/* Call it once, in the loop, which is woken if another thread runs it. If it is scheduled already,
 * nothing changes. Returns whether it was newly scheduled. Any thread, with the base's lock or
 * without. Many in a row are spread over several iterations. */
bool gs_ev_callback_schedule(struct event_base *base, struct event_callback *callback);

/* End the use of `count` callbacks, of which some may be those of events (ev_evcallback): none will
 * be called again, and events are deleted. Then fn is called once, in the loop, with one of the
 * callbacks and that one's argument, when none of them is running in another thread; there, the
 * object that contains them may be freed. Never waits. */
void gs_ev_callbacks_finalize(struct event_base *base, struct event_callback **callbacks, int count,
                              gs_ev_callback_fn *fn);

/* What a base waits for beside events. */
struct gs_ev_task {
    LIST_ENTRY(gs_ev_task) next;
    /* The base is being freed, and no kernel thread works for it any more: frees the task. What it
     * finalizes is called after that. */
    void (*abandon)(struct gs_ev_task *task);
};
void gs_ev_task_begin(struct event_base *base, struct gs_ev_task *task);
void gs_ev_task_end(struct event_base *base, struct gs_ev_task *task);

/* The lock of the base, which is recursive; base may be NULL. Locks are taken in this order: a
 * bufferevent's or buffer's own first, then the base's. */
void gs_ev_base_lock(struct event_base *base);
void gs_ev_base_unlock(struct event_base *base);

/* Returns the monotonic time of this iteration, or the current one outside of callbacks. */
uint64_t gs_ev_base_now_ns(struct event_base *base);

/* Like event_add, without taking the base's lock. */
int gs_ev_add_locked(struct event *event, const struct timeval *timeout);

#endif
