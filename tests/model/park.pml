/* Parking: gs_thread_park, publish_parked, gs_thread_unpark and end_wait in src/thread/schedule/wait.c; for
 * a mobile thread also publish and gs_thread_make_ready_mobile, and time_out and claim_canceled in
 * src/thread/schedule/mobile_wait.c.
 *
 *   worker 0, 1    kernel threads that run the parking thread T: the one to which T is bound, or
 *                  both if T is mobile
 *   unparker 0, 1  calls of gs_thread_unpark by any kernel threads, each after a write
 *   monitor        the deadline and the cancellation of a mobile T; those of a bound T belong to
 *                  its worker
 *
 * Weakly ordered processors: each location that synchronizes has a view, the set of the writes that
 * are visible to a thread that acquires it. A read-modify-write joins the location's view and the
 * caller's; a plain store replaces the location's view.
 *
 * Properties: when a park returns that has consumed an unparker's wake-up, T sees what the unparker
 * wrote; T is made ready once, and after it has left its stack; no wake-up is lost (T would wait
 * forever, which is an invalid end state).
 *
 * Bounds: two wake-ups, one deadline, one cancellation; T parks until it has consumed both
 * wake-ups.
 *
 * Faults: PLAIN_STORE, RELAXED_UNPARK, TWO_STEPS, PARKED_BY_STORE, PARKED_ON_STACK, STATE_LEFT */
#define EMPTY 0
#define NOTIFIED 1
#define PARKED 2

#define CLAIM_NONE 0
#define LEAVING 1
#define WAITING 2
#define TIMED_OUT 3
#define CANCELED 4

#define NOWHERE 0
#define RUNNING 1 /* or still on its stack */
#define RUN_QUEUE 2
#define INBOX 3
#define SHARED 4

#define BOTH 3
#define OWN 4 /* the write of T itself */

bool mobile;
byte park_state = EMPTY, park_view;
byte claim = CLAIM_NONE, claim_view;
byte queue_view; /* the view of the inbox, or of the shared queue's lock */
bool has_deadline, is_canceled, is_uncancelable, is_done;
bool deadlines_lock, may_time_out = true, may_cancel = true;
byte at = RUN_QUEUE; /* where T is */
byte unused;       /* wake-ups that no park has consumed */
byte used;

#define join(view) view = view | me; me = view
#define lock(it) atomic { !it -> it = true }
#define unlock(it) it = false

inline use_up()
{
    used = used | unused;
    unused = 0;
    assert((used & ~me) == 0)
}

/* gs_thread_make_ready_slow, gs_thread_enqueue */
inline make_ready(place)
{
    if
    :: mobile -> /* gs_thread_make_ready_mobile */
        lock(deadlines_lock);
        has_deadline = false;
        unlock(deadlines_lock);
        atomic { assert(at == NOWHERE); at = SHARED; join(queue_view) }
    :: else ->
        atomic { assert(at == NOWHERE); at = place; join(queue_view) }
    fi
}

/* Reset the state and claim T, for a deadline or a cancellation. is_claimed: the caller must make T
 * ready. */
inline end_wait(outcome)
{
#ifdef FAULT_STATE_LEFT
    is_claimed = claim == WAITING;
#else
    atomic {
        is_claimed = park_state == PARKED;
        if
        :: is_claimed -> park_state = EMPTY; join(park_view)
        :: else -> me = me | park_view
        fi
    }
#endif
    if
    :: is_claimed -> atomic { assert(claim == WAITING); claim = outcome; join(claim_view) }
    :: else
    fi
}

/* time_out and claim_canceled, called under the lock of the deadlines of T's worker. */
inline try(kind)
{
    is_claimed = false;
    lock(deadlines_lock);
    d_step { is_waiting = claim == WAITING; me = me | claim_view };
    if
    :: is_waiting && (kind == TIMED_OUT && has_deadline || kind == CANCELED && !is_uncancelable) ->
        end_wait(kind)
    :: else
    fi;
    unlock(deadlines_lock);
    if :: is_claimed -> make_ready(SHARED) :: else fi
}

/* Runs T from its start or resumption until it has left its stack again. */
inline go_on()
{
    if
    :: claim != CLAIM_NONE -> /* the second half of a park */
        assert(me & OWN);
        atomic { outcome = claim; claim = CLAIM_NONE; claim_view = 0 }
        if
        :: outcome == CANCELED -> is_uncancelable = true
        :: outcome == TIMED_OUT
        :: else -> /* woken: the state is still PARKED */
#ifdef FAULT_PLAIN_STORE
            d_step { park_state = EMPTY; park_view = me; assert(unused); use_up() }
#else
            d_step { park_state = EMPTY; join(park_view); assert(unused); use_up() }
#endif
        fi
    :: else
    fi;
    do
    :: used == BOTH -> is_done = true; break
    :: else ->
        d_step {
            outcome = park_state;
            park_state = EMPTY;
            join(park_view);
            if :: outcome == NOTIFIED -> use_up() :: else fi
        }
        if
        :: outcome == NOTIFIED
        :: outcome != NOTIFIED && is_canceled && !is_uncancelable -> is_uncancelable = true
        :: else -> break
        fi
    od;
    if
    :: is_done
    :: else ->
        lock(deadlines_lock);
        has_deadline = true;
        unlock(deadlines_lock);
        d_step { claim = (mobile -> LEAVING : WAITING); claim_view = 0 }
#ifdef FAULT_PARKED_ON_STACK
        d_step { park_state = (park_state == EMPTY -> PARKED : park_state); join(park_view) }
#endif
        at = NOWHERE; /* the worker is on the next thread's stack from here */
        if
        :: mobile -> d_step { claim = WAITING; claim_view = me } /* publish, with a release */
        :: else
        fi;
        atomic {
#ifdef FAULT_PARKED_BY_STORE
            park_state = EMPTY;
#endif
            if
            :: park_state != NOTIFIED -> park_state = PARKED; join(park_view); is_claimed = false
            :: else -> me = me | park_view; is_claimed = true
            fi
        }
        if :: is_claimed -> make_ready(RUN_QUEUE) :: else fi
    fi
}

proctype worker(byte id)
{
    byte me = (id == 0 -> OWN : 0), outcome;
    bool is_claimed;
    do
    :: is_done -> break
    :: atomic { at == INBOX && id == 0 -> at = RUN_QUEUE; me = me | queue_view }
    :: atomic {
        at == SHARED || (at == RUN_QUEUE && id == 0) ->
        if :: at == SHARED -> join(queue_view) :: else fi;
        at = RUNNING
    }; go_on()
    :: atomic { id == 0 && !mobile && may_time_out && has_deadline && at == NOWHERE ->
                may_time_out = false }; /* on_timer */
        has_deadline = false;
        if
        :: claim == WAITING ->
            end_wait(TIMED_OUT);
            if :: is_claimed -> make_ready(RUN_QUEUE) :: else fi
        :: else
        fi
    :: atomic { id == 0 && !mobile && may_cancel && at == NOWHERE ->
                may_cancel = false; is_canceled = true }; /* gs_thread_cancel_wait */
        if
        :: claim == WAITING && !is_uncancelable ->
            end_wait(CANCELED);
            if :: is_claimed -> make_ready(RUN_QUEUE) :: else fi
        :: else
        fi
    od
}

proctype unparker(byte id)
{
    byte me = 1 << id, former;
#ifdef FAULT_TWO_STEPS
    former = park_state;
    d_step { park_state = NOTIFIED; unused = unused | (1 << id); join(park_view) }
#else
    d_step {
        former = park_state;
        park_state = NOTIFIED;
        unused = unused | (1 << id);
#ifndef FAULT_RELAXED_UNPARK
        join(park_view)
#endif
    }
#endif
    if :: former == PARKED -> make_ready(INBOX) :: else fi
}

/* expire and gs_mobile_cancel_wait. */
proctype monitor()
{
    byte me, kind;
    bool is_claimed, is_waiting;
    do
    :: is_done -> break
    :: atomic { mobile && has_deadline && may_time_out -> kind = TIMED_OUT; may_time_out = false };
        try(kind)
    :: atomic { mobile && may_cancel -> kind = CANCELED; may_cancel = false; is_canceled = true };
        try(kind)
    od
}

init
{
    atomic {
        if
        :: mobile = true; run worker(1); run monitor()
        :: mobile = false
        fi;
        run worker(0);
        run unparker(0);
        run unparker(1)
    }
}
