/* Cancellation of a thread that migrates and ends: gs_thread_cancel, deliver and deliver_for_stuck in
 * src/thread/schedule/cancel.c; gs_mobile_cancel_wait and gs_thread_make_ready_mobile in
 * src/thread/schedule/mobile_wait.c; thread_must_cancel in src/thread/schedule/thread.h; finish and
 * gs_thread_complete in src/thread/schedule/thread.c.
 *
 *   worker 0, 1  run T, which is mobile, and deliver its cancellation
 *   canceler     cancels T, on worker 1
 *   waker        wakes T from its first wait, at any time
 *   monitor      delivers it for a stuck worker, or leaves it to the worker
 *
 * T starts in the shared queue and waits twice, the second time until it is canceled, and ends; or
 * it ends after the first wait. T is in one list of cancellations at a time, or its cancellation is
 * being delivered.
 *
 * Properties: a canceled T does not wait forever (that would be an invalid end state); T is made
 * ready once for each wait; T is completed once, and is not accessed afterwards.
 *
 * Bounds: two waits, one cancellation, one round of the monitor.
 *
 * Faults: DELIVERED_FIRST, WORKER_LATE, FINISH_UNSEEN, CANCELED_UNSEEN */
#define WAITING 1
#define CLAIMED 2
#define CLAIM_NONE 0
#define NOBODY 2

mtype = { NONE, SENT, DELIVERED, FINISHED };
mtype cancel = NONE;

bool message[2]; /* indexed by the worker whose list contains T */
bool deadlines_lock[2], is_shared = true, is_completed;
byte claim = CLAIM_NONE, owner = NOBODY, waits;

#define lock(it) atomic { !it -> it = true }
#define unlock(it) it = false
#define touch_t() assert(!is_completed)

inline resume_mobile()
{
    atomic { touch_t(); from = owner };
    lock(deadlines_lock[from]);
    atomic { touch_t(); owner = NOBODY };
    unlock(deadlines_lock[from]);
    atomic { touch_t(); assert(!is_shared); is_shared = true; is_claimed = false; from = 0 }
}

/* gs_mobile_cancel_wait: is_claimed */
inline cancel_wait(w)
{
    lock(deadlines_lock[w]);
    if
    :: atomic { owner == w -> touch_t() };
        atomic {
            touch_t();
            is_claimed = claim == WAITING;
            if :: is_claimed -> claim = CLAIMED :: else fi
        }
    :: atomic { owner != w -> touch_t(); is_claimed = false }
    fi;
    unlock(deadlines_lock[w])
}

inline cancel_own_wait(w)
{
    if
    :: to == w ->
        cancel_wait(w);
        if :: is_claimed -> resume_mobile() :: else fi
    :: else
    fi
}

/* T stays in existence until `cancel` is no longer SENT. */
inline deliver(w)
{
    atomic { touch_t(); to = owner };
    if
    :: to != w && to != NOBODY && cancel == SENT -> message[to] = true
    :: else ->
#ifndef FAULT_DELIVERED_FIRST
        cancel_own_wait(w);
#endif
        atomic {
            touch_t();
            is_claimed = cancel == SENT;
            if :: is_claimed -> cancel = DELIVERED :: else -> is_completed = true fi
        };
#ifdef FAULT_DELIVERED_FIRST
        if :: is_claimed -> cancel_own_wait(w) :: else fi
#endif
    fi;
    atomic { is_claimed = false; to = 0 }
}

/* The worker takes T and runs it until it waits or ends. */
inline run_t(w)
{
    claim = CLAIM_NONE;
#ifndef FAULT_WORKER_LATE
    owner = w;
#endif
#ifndef FAULT_CANCELED_UNSEEN
    is_claimed = cancel != NONE; /* after a cancellation, each wait returns -ECANCELED */
#endif
#ifdef FAULT_WORKER_LATE
    owner = w;
#endif
    if
    :: is_claimed || waits == 1 ->
        waits = 2;
        atomic { is_claimed = cancel == SENT; cancel = FINISHED }; /* finish */
        if
#ifndef FAULT_FINISH_UNSEEN
        :: is_claimed -> is_claimed = false
#endif
        :: else -> atomic { touch_t(); is_completed = true }
        fi
    :: !is_claimed -> atomic { waits++; claim = WAITING }
    fi;
    is_claimed = false
}

proctype worker(byte id)
{
    byte to, from;
    bool is_claimed;
    do
    :: atomic { is_shared -> is_shared = false }; run_t(id)
    :: atomic { message[id] -> message[id] = false }; deliver(id)
    :: atomic { is_completed && !message[0] && !message[1] -> break }
    od
}

proctype canceler()
{
    byte to;
    if
    :: atomic { cancel == NONE -> cancel = SENT };
        atomic { touch_t(); to = owner };
        message[(to == NOBODY -> 1 : to)] = true
    :: cancel == FINISHED
    fi
}

proctype waker()
{
    byte from;
    bool is_claimed;
    if
    :: atomic { waits == 1 && claim == WAITING -> claim = CLAIMED }; resume_mobile()
    :: waits == 2 || is_completed
    fi
}

/* deliver_for_stuck */
proctype monitor()
{
    byte w, from;
    bool is_claimed;
    if
    :: atomic { message[0] -> message[0] = false }
    :: atomic { message[1] -> message[1] = false; w = 1 }
    :: is_completed -> goto end
    fi;
    cancel_wait(w);
    if
    :: is_claimed -> cancel = DELIVERED; resume_mobile()
    :: else -> message[w] = true
    fi;
end:
    skip
}

init
{
    atomic {
        run worker(0);
        run worker(1);
        run canceler();
        run waker();
        run monitor()
    }
}
