/* Timers: deadlines on the monotonic clock. Periodics: times of the wall clock. Part of
 * gossamer/loop.h. */
#ifndef GOSSAMER_LOOP_TIMER_H
#define GOSSAMER_LOOP_TIMER_H

#include <gossamer/clock.h>
#include <gossamer/loop_watcher.h>

/* ---- Timers: deadlines on the monotonic clock ---- */

struct gs_timer;
typedef void gs_timer_fn(struct gs_timer *timer);
struct gs_timer {
    struct gs_watcher watcher;
    gs_timer_fn *callback;
    uint64_t deadline_ns;
    uint64_t interval_ns; /* 0: once */
};

GS_API void gs_timer_init(struct gs_timer *timer, struct gs_loop *loop, gs_timer_fn *callback);

/* Start to fire once at deadline_ns, or move an active one: to a later deadline, that is one store.
 * One that is moved before it was called is not called for its former deadline. Returns 0, or
 * -ENOMEM, never when active. */
GS_API int gs_timer_start(struct gs_timer *timer, uint64_t deadline_ns);

/* Every interval_ns from first_ns on. Intervals that passed unseen are dropped, not made up for.
 * Returns 0, -ENOMEM, or -EINVAL for an interval of 0. */
GS_API GS_MUST_CHECK int gs_timer_start_every(struct gs_timer *timer, uint64_t first_ns,
                                              uint64_t interval_ns);
GS_API void gs_timer_stop(struct gs_timer *timer);

/* ---- Periodics: times of the wall clock, in nanoseconds since 1970-01-01 UTC ----
 *
 *     gs_periodic_start_every(&midnight, 0, 86400 * GS_SECOND);       each midnight of UTC
 *
 * A periodic follows the clock. It is called once the clock shows its time or a later one, however
 * it came there; times that the clock has jumped over, or that passed unseen, are called for once
 * and not made up for. After a jump back, the next time is the first after the clock's new one, so
 * a time may come twice. */

struct gs_periodic;
typedef void gs_periodic_fn(struct gs_periodic *periodic);

/* Returns the first time after wall_ns at which to call, or GS_NEVER; a time that is not later
 * counts as the next nanosecond. May be asked whenever the loop sees fit, and must not start or
 * stop watchers. */
typedef uint64_t gs_reschedule_fn(struct gs_periodic *periodic, uint64_t wall_ns);

struct gs_periodic {
    struct gs_watcher watcher;
    gs_periodic_fn *callback;
    struct gs_list link; /* of the loop's */
    gs_reschedule_fn *reschedule;
    uint64_t at_ns; /* the next call */
    uint64_t offset_ns;
    uint64_t interval_ns; /* 0: once, or rescheduled */
};

GS_API void gs_periodic_init(struct gs_periodic *periodic, struct gs_loop *loop,
                             gs_periodic_fn *callback);

/* Once at wall_ns; at each time that is offset_ns and a multiple of interval_ns; when `reschedule`
 * says. An active one is moved. Each returns 0, -EINVAL (an interval of 0), -ENOMEM, -EMFILE or
 * -ENFILE. */
GS_API GS_MUST_CHECK int gs_periodic_start(struct gs_periodic *periodic, uint64_t wall_ns);
GS_API GS_MUST_CHECK int gs_periodic_start_every(struct gs_periodic *periodic, uint64_t offset_ns,
                                                 uint64_t interval_ns);
GS_API GS_MUST_CHECK int gs_periodic_start_by(struct gs_periodic *periodic,
                                              gs_reschedule_fn *reschedule);
GS_API void gs_periodic_stop(struct gs_periodic *periodic);

/* The time of its next call, while active. */
static inline uint64_t gs_periodic_next(const struct gs_periodic *periodic)
{
    return periodic->at_ns;
}

#endif
