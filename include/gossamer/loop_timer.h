/* Timers: deadlines on the monotonic clock. Periodics: times of the wall clock. Part of
 * gossamer/loop.h. */
#ifndef GOSSAMER_LOOP_TIMER_H
#define GOSSAMER_LOOP_TIMER_H

#include <gossamer/clock.h>
#include <gossamer/loop_watcher.h>

GS_BEGIN_DECLS

/* ---- Timers: deadlines on the monotonic clock ---- */

struct gs_timer;
typedef void gs_timer_fn(struct gs_timer *timer);
struct gs_timer {
    struct gs_watcher watcher;
    gs_timer_fn *callback;
    uint64_t deadline_ns;
    uint64_t interval_ns; /* 0: it fires once */
};

GS_API void gs_timer_init(struct gs_timer *timer, struct gs_loop *loop, gs_timer_fn *callback);

/* Fire once at deadline_ns. An active timer is moved; a move to a later deadline costs one store. A
 * timer that is moved before its call is not called for its former deadline. Returns 0, or -ENOMEM,
 * but never for an active timer. */
GS_API int gs_timer_start(struct gs_timer *timer, uint64_t deadline_ns);

/* Fire at first_ns and then every interval_ns. Missed intervals are skipped. Returns 0, -ENOMEM, or
 * -EINVAL (the interval is 0). */
GS_API GS_MUST_CHECK int gs_timer_start_repeat(struct gs_timer *timer, uint64_t first_ns,
                                               uint64_t interval_ns);

GS_API void gs_timer_stop(struct gs_timer *timer);

/* ---- Periodics: times of the wall clock, in nanoseconds since 1970-01-01 UTC ----
 *
 *     gs_periodic_start_repeat(&midnight, 0, 86400 * GS_SECOND);       each midnight UTC
 *
 * A periodic follows the wall clock, also when that is set. It is called once the clock shows its
 * time or a later one. Times that the clock has skipped, or that were missed, lead to one call.
 * After the clock was set back, the next time is the first one after the clock's new time, so the
 * periodic may be called twice for the same time. */

struct gs_periodic;
typedef void gs_periodic_fn(struct gs_periodic *periodic);

/* Returns the next time after wall_ns at which to call, or GS_NEVER. A time that is not later than
 * wall_ns counts as the next nanosecond. The loop may call it at any time. It must not start or
 * stop watchers. */
typedef uint64_t gs_reschedule_fn(struct gs_periodic *periodic, uint64_t wall_ns);

struct gs_periodic {
    struct gs_watcher watcher;
    gs_periodic_fn *callback;
    struct gs_list link; /* in the loop's list */
    gs_reschedule_fn *reschedule;
    uint64_t at_ns; /* the next call */
    uint64_t offset_ns;
    uint64_t interval_ns; /* 0: once, or rescheduled */
};

GS_API void gs_periodic_init(struct gs_periodic *periodic, struct gs_loop *loop,
                             gs_periodic_fn *callback);

/* Call once at wall_ns; at offset_ns plus each multiple of interval_ns; or at the times that
 * `reschedule` returns. An active periodic is moved. Each returns 0, -EINVAL (the interval is 0),
 * -ENOMEM, -EMFILE or -ENFILE. */
GS_API GS_MUST_CHECK int gs_periodic_start(struct gs_periodic *periodic, uint64_t wall_ns);
GS_API GS_MUST_CHECK int gs_periodic_start_repeat(struct gs_periodic *periodic, uint64_t offset_ns,
                                                  uint64_t interval_ns);
GS_API GS_MUST_CHECK int gs_periodic_start_with(struct gs_periodic *periodic,
                                                gs_reschedule_fn *reschedule);

GS_API void gs_periodic_stop(struct gs_periodic *periodic);

/* Returns the time of the next call, while active. */
static inline uint64_t gs_periodic_next(const struct gs_periodic *periodic)
{
    return periodic->at_ns;
}

GS_END_DECLS

#endif
