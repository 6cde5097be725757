/* The mutex: gs_mutex_try_acquire and gs_mutex_release in include/gossamer/sync.h;
 * take_or_mark_contended, abandon, gs_mutex_lock_slow and gs_mutex_unlock_slow in
 * src/thread/sync/mutex.c; end_wait and gs_thread_abandon_wait in src/thread/schedule/wait.c.
 *
 *   thread 0 to 2  each on a different worker: locks the mutex, again without a deadline if the
 *                  first attempt timed out; decrements a count; unlocks. The last thread to do so
 *                  then frees the mutex
 *
 * Properties: there is one owner at a time; the mutex is not accessed once it is freed, although
 * other threads may still be in the call that unlocked it; gs_mutex_unlock_slow finds the word as it
 * left it; no hand-over is lost (that would be an invalid end state).
 *
 * Bounds: three threads, one deadline each.
 *
 * Faults: NOT_WAITED_OUT, NO_MARK, TAKE_CONTENDED, READY_UNDER_LOCK, OWNER_LATE, NO_ABANDON,
 * RELEASE_MARKED */
#define THREADS 3
#define NOBODY THREADS

#define CLAIM_NONE 0
#define WAITING 1
#define WOKEN 2
#define TIMED_OUT 3

byte owner = NOBODY;   /* the mutex word consists of an owner ... */
bool contended;           /* ... and a lowest bit */
bool spin;
byte queue[THREADS] = NOBODY, length;
byte claim[THREADS], inside, left = THREADS;
bool is_ready[THREADS], is_freed;

#define touch() assert(!is_freed)
#define lock_spin() atomic { !spin -> touch(); spin = true }
#define unlock_spin() atomic { touch(); spin = false }

inline pop()
{
    atomic {
        first = queue[0];
        queue[0] = queue[1];
        queue[1] = queue[2];
        queue[2] = NOBODY;
        length--
    }
}

inline remove(t)
{
    atomic {
        if
        :: queue[0] == t -> queue[0] = queue[1]; queue[1] = queue[2]; queue[2] = NOBODY; length--
        :: queue[1] == t -> queue[1] = queue[2]; queue[2] = NOBODY; length--
        :: queue[2] == t -> queue[2] = NOBODY; length--
        :: else
        fi
    }
}

/* abandon: the queue is empty. */
inline unmark()
{
    do
    :: length -> break
    :: !length && !contended -> break
#ifdef FAULT_NOT_WAITED_OUT
    :: atomic { !length && contended -> contended = false }; break
#else
    :: !length && contended && owner == NOBODY ->
        unlock_spin(); /* the thread that has released the mutex can take the lock now */
        lock_spin()
    :: atomic { !length && contended && owner != NOBODY -> contended = false }; break
#endif
    od
}

/* is_owned: the caller owns the mutex. */
inline lock_mutex(has_deadline)
{
    if
    :: atomic { owner == NOBODY && !contended -> touch(); owner = id }; is_owned = true
#ifdef FAULT_TAKE_CONTENDED
    :: atomic { owner == NOBODY && contended -> touch(); owner = id }; is_owned = true
#endif
    :: atomic { owner != NOBODY || contended -> touch() };
        lock_spin();
        if
        :: atomic { owner == NOBODY && !contended -> owner = id }; unlock_spin(); is_owned = true
        :: atomic { owner != NOBODY || contended -> contended = true };
            if
            :: d_step { queue[length] = id; length++; claim[id] = WAITING };
                unlock_spin();
                wait_for_mutex(has_deadline)
            :: has_deadline -> unmark(); unlock_spin() /* wait_prepare has failed */
            fi
        fi
    fi
}

inline wait_for_mutex(has_deadline)
{
    if
    :: is_ready[id] ->
        atomic { is_ready[id] = false; assert(claim[id] == WOKEN && owner == id); claim[id] = CLAIM_NONE };
        is_owned = true
    :: atomic { has_deadline && claim[id] == WAITING -> claim[id] = TIMED_OUT };
#ifndef FAULT_NO_ABANDON
        lock_spin();
        remove(id);
        unmark();
        unlock_spin();
#endif
        claim[id] = CLAIM_NONE
    fi
}

inline make_ready()
{
    if
    :: first != NOBODY -> atomic { assert(!is_ready[first]); is_ready[first] = true; first = NOBODY }
    :: else
    fi
}

inline unlock_mutex()
{
    atomic {
        touch();
#ifdef FAULT_RELEASE_MARKED
        is_slow = false;
        owner = NOBODY;
        if :: contended -> contended = false; is_slow = true :: else fi
#else
        owner = NOBODY;
        is_slow = contended
#endif
    };
    if
    :: is_slow ->
        lock_spin();
#ifndef FAULT_RELEASE_MARKED
        assert(owner == NOBODY && contended);
#endif
        do
        :: !length -> first = NOBODY; break
        :: else ->
            pop();
            if
            :: atomic { claim[first] == WAITING -> claim[first] = WOKEN }; break
            :: claim[first] != WAITING
            fi
        od;
#ifdef FAULT_OWNER_LATE
        unlock_spin();
        atomic { owner = first; contended = first != NOBODY && length };
#else
#ifdef FAULT_NO_MARK
        atomic { owner = first; contended = false };
#else
        atomic { owner = first; contended = first != NOBODY && length };
#endif
#ifdef FAULT_READY_UNDER_LOCK
        make_ready();
#endif
        unlock_spin();
#endif
        make_ready();
        is_slow = false
    :: else
    fi
}

proctype thread(byte id)
{
    byte first = NOBODY;
    bool is_owned, is_slow, is_last;
    lock_mutex(true);
    if :: is_owned :: else -> lock_mutex(false) fi;
    atomic { inside++; assert(inside == 1) };
    atomic { inside--; left--; is_last = left == 0 };
    unlock_mutex();
    if :: is_last -> is_freed = true :: else fi
}

init
{
    atomic { run thread(0); run thread(1); run thread(2) }
}
