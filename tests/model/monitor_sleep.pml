/* The monitor sleeps without a timeout while all workers are idle: monitor, sleep_until_woken,
 * sleep_for, are_all_idle and gs_monitor_wake in src/thread/schedule/monitor.c; idle in src/thread/schedule/worker.c.
 *
 *   worker 0, 1  sleep, and then run something: one of them is stuck in it until the monitor has
 *                noticed that
 *   monitor      checks at most ROUNDS times while all workers are idle, and then sleeps until it
 *                is woken
 *
 * Property: the monitor notices a stuck worker (otherwise the worker would be stuck forever: an
 * invalid end state).
 *
 * Bounds: two workers, each of which leaves the idle state once.
 *
 * Faults: LOOK_BEFORE_ASLEEP, IDLE_LATE, COUNT_READ_LATE, NOT_INCREMENTED, NOT_WOKEN */
#define ROUNDS 2

bool is_idle[2] = true, is_stuck[2], is_seen, is_asleep;
byte over, wake_count, sleeping; /* sleeping: 1 + the futex call's value of wake_count */

#define are_all_idle (is_idle[0] && is_idle[1])

proctype worker(byte id)
{
#ifdef FAULT_IDLE_LATE
    bool was_asleep = is_asleep;
    is_idle[id] = false;
    if
    :: was_asleep
#else
    is_idle[id] = false;
    if
    :: is_asleep
#endif
        -> /* gs_monitor_wake */
#ifndef FAULT_NOT_INCREMENTED
        wake_count++;
#endif
#ifndef FAULT_NOT_WOKEN
        sleeping = 0
#endif
    :: else
    fi;
    if
    :: is_stuck[id] = true; is_seen; is_stuck[id] = false
    :: is_idle[id] = true
    fi;
    over++
}

/* FUTEX_WAIT returns at once if the value has changed. */
inline sleep_until_woken()
{
#ifndef FAULT_COUNT_READ_LATE
    seen = wake_count;
#endif
#ifdef FAULT_LOOK_BEFORE_ASLEEP
    may_sleep = are_all_idle;
    is_asleep = true;
#else
    is_asleep = true;
    may_sleep = are_all_idle;
#endif
#ifdef FAULT_COUNT_READ_LATE
    seen = wake_count;
#endif
    if
    :: may_sleep ->
        atomic {
            if :: wake_count == seen -> sleeping = seen + 1 :: else fi
        };
end_sleep:
        !sleeping
    :: else
    fi;
    is_asleep = false
}

proctype monitor()
{
    byte seen, idle_rounds;
    bool may_sleep;
    do
    :: is_stuck[0] || is_stuck[1] -> is_seen = true; break
    :: are_all_idle && idle_rounds < ROUNDS -> idle_rounds++
    :: !are_all_idle && idle_rounds -> idle_rounds = 0
    :: are_all_idle && idle_rounds == ROUNDS -> idle_rounds = 0; sleep_until_woken()
    :: over == 2 && are_all_idle -> break
    od
}

init
{
    atomic { run worker(0); run worker(1); run monitor() }
}
