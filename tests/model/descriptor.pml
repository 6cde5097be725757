/* Readiness of a descriptor: try_call and run_call in src/thread/io/io.c; gs_descriptor_wait,
 * gs_descriptor_notify, deliver_event and wake_all in src/thread/io/descriptors.c; descriptor_clear
 * and descriptor_set in src/thread/io/descriptors.h.
 *
 *   reader 0, 1  threads on different workers, which read once each from the same descriptor
 *   owner        the worker whose loop watches the descriptor, edge-triggered, and delivers events
 *   kernel       makes UNITS arrive, one after the other
 *
 * As with accept, each read gets one unit and may leave more; so a reader sets the bit again after
 * its read, and wakes the threads that have started to wait since the bit was cleared.
 *
 * Property: no thread waits while there is something to read (checked when no other step is
 * possible).
 *
 * Bounds: two readers, two units.
 *
 * Faults: SET_WITHOUT_WAKE, CLEAR_LATE, NOT_LOOKED, REPORT_UNSET, LOOK_FIRST */
#define READERS 2
#define UNITS 2

byte data, events;
bool maybe_ready, lock_held, edge;
bool is_queued[READERS], is_ready[READERS];

#define lock() atomic { !lock_held -> lock_held = true }
#define unlock() lock_held = false

/* Called under the lock. */
inline wake_all()
{
    d_step {
        is_ready[0] = is_ready[0] || is_queued[0];
        is_ready[1] = is_ready[1] || is_queued[1];
        is_queued[0] = false;
        is_queued[1] = false
    }
}

inline set_and_wake()
{
    maybe_ready = true;
#ifndef FAULT_SET_WITHOUT_WAKE
    if
    :: is_queued[0] || is_queued[1] ->
        lock();
        wake_all();
        unlock()
    :: else
    fi
#endif
}

proctype reader(byte id)
{
    bool got, may_be_ready = maybe_ready;
    do
    :: may_be_ready ->
#ifndef FAULT_CLEAR_LATE
        maybe_ready = false;
#endif
        atomic {
            got = data > 0;
            data = data - got
        };
#ifdef FAULT_CLEAR_LATE
        if :: !got -> maybe_ready = false :: else fi;
#endif
        if :: got -> set_and_wake(); break :: else -> may_be_ready = false fi
    :: else -> /* gs_descriptor_wait */
        lock();
#ifdef FAULT_LOOK_FIRST
        may_be_ready = maybe_ready;
        is_queued[id] = true;
#else
        is_queued[id] = true;
#ifndef FAULT_NOT_LOOKED
        may_be_ready = maybe_ready;
#endif
#endif
        if
        :: may_be_ready -> is_queued[id] = false; unlock()
        :: else ->
            unlock();
end_waiting:
            is_ready[id];
            is_ready[id] = false;
            may_be_ready = true
        fi
    od
}

proctype owner()
{
end_idle:
    do
    :: edge ->
        edge = false;
        lock();
#ifndef FAULT_REPORT_UNSET
        maybe_ready = true;
#endif
        wake_all();
        unlock()
    od
}

proctype kernel()
{
    do
    :: events == UNITS -> break
    :: else -> atomic { data++; events++; edge = true }
    od;
    timeout -> assert(!data || (!is_queued[0] && !is_queued[1]))
}

init
{
    atomic { run reader(0); run reader(1); run owner(); run kernel() }
}
