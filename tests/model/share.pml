/* Threads that any worker may take: gs_worker_share, gs_worker_wake_idle, gs_worker_take_shared and
 * steal_from in src/thread/schedule/steal.c; run, idle, wake_another and has_shared_thread in
 * src/thread/schedule/worker.c.
 *
 *   worker 0, 1  take threads, one of which occupies its worker until all other shared threads have
 *                run
 *   sharer       a kernel thread that is no worker: shares X, then Y, in worker 0's queue
 *
 * While worker 0 sleeps, its loop may make Z ready, which stays on that worker. A worker that was
 * woken for a shared thread may first run another thread, which occupies it. Therefore, before a
 * worker runs its first thread after it was idle, it wakes another worker if there still is a shared
 * thread; a worker that has taken half of a queue does the same. A queue's length, read without its
 * lock, may be an old value.
 *
 * Properties: each thread is run once; while a worker is occupied, the other one runs all shared
 * threads (otherwise it would sleep or wait forever: an invalid end state).
 *
 * Bounds: two workers, two shared threads, one other thread.
 *
 * Faults: NO_OTHER_WOKEN, STEAL_WITHOUT_WAKE, LOOK_BEFORE_IDLE, WAKE_BEFORE_SHARED */
#define X 1
#define Y 2
#define Z 4
#define ALL 7
#define WORKERS 2

byte shared[WORKERS];  /* sets of threads, in which X is before Y */
byte ready = 0;        /* worker 0's run queue */
byte done, keeps;      /* threads that have run; the thread that occupies its worker */
byte idle;
bool is_idle[WORKERS], wake[WORKERS], may_event = true;

inline wake_idle(except)
{
    if
    :: idle ->
        do
        :: i == WORKERS -> break
        :: i < WORKERS && i != except ->
            atomic { is_other_idle = is_idle[i]; is_idle[i] = false };
            if :: is_other_idle -> wake[i] = true; break :: else -> i++ fi
        :: i < WORKERS && i == except -> i++
        od;
        atomic { i = 0; is_other_idle = false }
    :: else
    fi
}

/* The first thread of a queue. */
#define first_of(set) (set & X -> X : set & Y)

inline take(w, count)
{
    atomic {
        taken = first_of(shared[w]);
        shared[w] = shared[w] & ~taken;
        if :: count == 2 -> rest = shared[w]; shared[w] = 0 :: else fi
    }
}

inline find()
{
    atomic {
        if :: ready && id == 0 -> taken = Z; ready = 0 :: else fi
    };
    if
    :: taken
    :: !taken && shared[id] -> take(id, 1)
    :: !taken /* the length was an old value, or 0 */
    fi;
    if
    :: taken
    :: !taken && shared[1 - id] ->
        if
        :: take(1 - id, 1)
        :: shared[1 - id] == (X | Y) -> take(1 - id, 2)
        fi;
        if
        :: rest ->
            shared[id] = shared[id] | rest;
            rest = 0;
#ifndef FAULT_STEAL_WITHOUT_WAKE
            wake_idle(id)
#endif
        :: else
        fi
    :: !taken
    fi
}

inline go_idle()
{
#ifdef FAULT_LOOK_BEFORE_IDLE
    has_shared = shared[0] || shared[1];
#endif
    is_idle[id] = true;
    idle++;
#ifndef FAULT_LOOK_BEFORE_IDLE
    has_shared = shared[0] || shared[1];
#endif
    if
    :: has_shared
    :: else ->
        if
        :: wake[id] -> wake[id] = false
        :: atomic { id == 0 && may_event -> may_event = false; ready = Z }
        :: done == ALL
        fi
    fi;
    idle--;
    atomic { is_idle[id] = false; was_idle = true; has_shared = false }
}

proctype worker(byte id)
{
    byte taken, rest, i;
    bool is_other_idle, has_shared, was_idle; /* was_idle: has run no thread since it was idle */
    do
    :: atomic { done == ALL -> break }
    :: done != ALL ->
        find();
        if
        :: taken ->
            if
#ifndef FAULT_NO_OTHER_WOKEN
            :: was_idle && (shared[0] || shared[1]) -> wake_idle(id)
#endif
            :: else
            fi;
            was_idle = false;
            if :: keeps == taken -> ((done | taken) & (X | Y)) == (X | Y) :: else fi;
            atomic { assert(!(done & taken)); done = done | taken; taken = 0 }
        :: else -> go_idle()
        fi
    od
}

inline share(t)
{
#ifdef FAULT_WAKE_BEFORE_SHARED
    wake_idle(WORKERS);
    shared[0] = shared[0] | t
#else
    shared[0] = shared[0] | t;
    wake_idle(WORKERS)
#endif
}

proctype sharer()
{
    byte i;
    bool is_other_idle;
    share(X);
    share(Y)
}

init
{
    atomic {
        if
        :: keeps = X
        :: keeps = Y
        :: keeps = Z
        fi;
        run worker(0);
        run worker(1);
        run sharer()
    }
}
