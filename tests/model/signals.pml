/* Signal handlers and the end of a loop: handle, take_number, give_number_back and unlink_catcher in src/loop/signal.c,
 * and gs_loop_free after them. All loops watch the same signal.
 *
 *   loop 0 to 1     starts to watch, stops, and is freed
 *   handler 0 to 1  signals, each handled by some kernel thread
 *
 * Properties: no handler accesses a freed loop; each loop that watches during the whole run of a handler is notified of
 * the signal; a loop that has stopped watching is not notified.
 * Bounds: two loops, two signals.
 *
 * Faults: NOT_WAITED, COUNT_LATE, UNLINK_LATE, HEAD_BEFORE_NEXT, WATCHED_LATE, CLEAR_EARLY, UNLOCKED */
#define LOOPS 2
#define NONE LOOPS

byte catchers = NONE, next[LOOPS] = NONE, handlers;
bool watched[LOOPS], caught[LOOPS], is_freed[LOOPS], is_watching[LOOPS];
bool lock_held;

#ifdef FAULT_UNLOCKED
#define lock() skip
#define unlock() skip
#else
#define lock() atomic { !lock_held -> lock_held = true }
#define unlock() lock_held = false
#endif

inline unlink()
{
    at = catchers;
    if
    :: at == id -> catchers = next[id]
    :: else ->
        do
        :: next[at] == id -> next[at] = next[id]; break
        :: else -> at = next[at]
        od
    fi
}

proctype loop(byte id)
{
    byte at;
    lock(); /* take_number */
#ifdef FAULT_WATCHED_LATE
    next[id] = catchers;
    catchers = id;
    is_watching[id] = true;
    watched[id] = true;
#else
    watched[id] = true;
#ifdef FAULT_HEAD_BEFORE_NEXT
    at = catchers;
    catchers = id;
    next[id] = at;
#else
    next[id] = catchers;
    catchers = id;
#endif
    is_watching[id] = true;
#endif
    unlock();

    is_watching[id] = false;
    lock(); /* give_number_back */
    watched[id] = false;
#ifndef FAULT_UNLINK_LATE
    unlink();
#endif
    unlock();
#ifdef FAULT_CLEAR_EARLY
    caught[id] = false;
#endif
#ifndef FAULT_NOT_WAITED
    handlers == 0;
#endif
#ifdef FAULT_UNLINK_LATE
    lock();
    unlink();
    unlock();
#endif
#ifndef FAULT_CLEAR_EARLY
    caught[id] = false;
#endif
    assert(!caught[id]);
    is_freed[id] = true
}

proctype handler()
{
    byte at;
    bool was_watching[LOOPS], was_notified[LOOPS];
#ifndef FAULT_COUNT_LATE
    handlers++;
#endif
    d_step { was_watching[0] = is_watching[0]; was_watching[1] = is_watching[1] };
    at = catchers;
#ifdef FAULT_COUNT_LATE
    handlers++;
#endif
    do
    :: at == NONE -> break
    :: else ->
        assert(!is_freed[at]);
        if
        :: watched[at] -> atomic { assert(!is_freed[at]); caught[at] = true; was_notified[at] = true }
        :: else
        fi;
        atomic { assert(!is_freed[at]); at = next[at] }
    od;
    atomic {
        assert(!was_watching[0] || !is_watching[0] || was_notified[0]);
        assert(!was_watching[1] || !is_watching[1] || was_notified[1])
    };
    handlers--
}

init
{
    atomic { run loop(0); run loop(1); run handler(); run handler() }
}
