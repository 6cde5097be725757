/* The object of gs_once may be freed when a call returns: gs_once in src/thread/sync/once.c;
 * gs_waiters_wake_all_and_unlock in src/thread/schedule/waiters.h.
 *
 *   runner   runs the function, and sets the state to DONE under the lock
 *   caller   returns without taking the lock if the state is DONE and the lock is free, and then
 *            frees the object
 *
 * Weakly ordered memory: the runner's two stores, to held and state, may become visible in either
 * order, unless the second one is a release; the caller's two loads may be made in either order,
 * unless the first one is an acquire.
 *
 * Property: the object is not accessed after it was freed, and what the function wrote is visible
 * when a call returns.
 *
 * Bounds: one runner, and one caller that calls until it returns.
 *
 * Faults: STORE_RELAXED, LOAD_RELAXED, HELD_UNSEEN, HELD_RELAXED */
bool is_written, is_done, is_held, is_freed;
bool is_written_visible; /* to a caller that synchronizes with the runner's release of the lock */

proctype runner()
{
    is_written = true;
#ifdef FAULT_STORE_RELAXED
    if
    :: is_held = true; is_done = true
    :: is_done = true; is_held = true
    fi;
#else
    is_held = true;
    is_done = true;
#endif
    assert(!is_freed); /* accesses the queue of waiters */
    atomic {
        assert(!is_freed);
        is_held = false;
        is_written_visible = true
    }
}

proctype caller()
{
    bool state, held, synchronizes;
    do
    :: !is_freed ->
#ifdef FAULT_LOAD_RELAXED
        if
        :: state = is_done; atomic { held = is_held; synchronizes = is_written_visible }
        :: atomic { held = is_held; synchronizes = is_written_visible }; state = is_done
        fi;
#else
        state = is_done;
        atomic { held = is_held; synchronizes = is_written_visible };
#endif
#ifdef FAULT_HELD_UNSEEN
        held = false;
#endif
#ifdef FAULT_HELD_RELAXED
        synchronizes = false;
#endif
        if
        :: state && !held ->
            assert(synchronizes);
            is_freed = true;
            break
        :: else
        fi
    od
}

init
{
    atomic { run runner(); run caller() }
}
