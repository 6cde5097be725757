/* What the monitor does on behalf of a stuck worker, which may continue at any moment:
 * deliver_cancels, return_to_inbox and help_stuck in src/thread/schedule/monitor.c;
 * gs_cancel_deliver_for_stuck and run_cancel_message in src/thread/schedule/cancel.c; gs_deadlines_expire,
 * gs_mobile_cancel_wait and gs_thread_make_ready_mobile in src/thread/schedule/mobile_wait.c; gs_worker_send
 * and take_inbox in src/thread/schedule/worker.c.
 *
 *   worker     may be stuck: any of its steps may take long
 *   other      another worker, on which T resumes
 *   monitor    takes cancellations from the worker's inbox once, and expires its deadlines once,
 *              whether or not the worker is stuck
 *   sender     sends P, a thread bound to the worker; another one, Q, is in the inbox at first
 *   canceler   sends the message that cancels T
 *
 * T is mobile, waits on the worker with a deadline, and ends when it has resumed. It is completed
 * then, or by its message if that is not delivered yet; T and the message are gone afterwards.
 * (cancel.pml models a T that waits again on another worker.)
 *
 * Properties: P and Q are taken once; T is claimed once and completed once; T and its message are
 * not accessed afterwards; nothing is lost (that would be an invalid end state). If the monitor has
 * taken a part, the order in which items were sent is not preserved.
 *
 * Bounds: three items in the inbox, one round of cancellations, two expiries.
 *
 * Faults: PUT_BACK_BY_STORE, NEWER_LOST, NEWER_CUT, NO_WAKE, KEPT_IN_LIST, NEXT_LATE,
 * EXPIRE_UNLOCKED */
#define NIL 0
#define P 1
#define Q 2
#define MESSAGE 3 /* the message for T */

#define WAITING 1
#define CLAIMED 2

mtype = { SENT, DELIVERED, FINISHED };
mtype cancel = SENT;

byte inbox = Q, next[4], taken;
bool wake, deadlines_lock, in_heap = true, is_home = true /* is_home: T belongs to this worker */;
byte claim = WAITING;
bool is_shared, is_completed;

#define is_finished (taken == (1 << P | 1 << Q) && is_completed)
#define lock(it) atomic { !it -> it = true }
#define unlock(it) it = false
#define touch_t() assert(!is_completed)

/* thread_claim */
inline try_claim()
{
    atomic {
        touch_t();
        is_claimed = claim == WAITING;
        if :: is_claimed -> claim = CLAIMED :: else fi
    }
}

/* gs_thread_make_ready_mobile */
inline resume_mobile()
{
    lock(deadlines_lock);
    atomic { touch_t(); in_heap = false; is_home = false };
    unlock(deadlines_lock);
    atomic { touch_t(); assert(!is_shared); is_shared = true; is_claimed = false }
}

/* gs_deadlines_expire */
inline expire()
{
#ifndef FAULT_EXPIRE_UNLOCKED
    lock(deadlines_lock);
#endif
    if :: in_heap -> try_claim(); in_heap = false :: else fi;
#ifndef FAULT_EXPIRE_UNLOCKED
    unlock(deadlines_lock);
#endif
    if :: is_claimed -> resume_mobile() :: else fi
}

/* gs_mobile_cancel_wait: is_claimed */
inline cancel_wait()
{
    lock(deadlines_lock);
    if :: is_home -> try_claim() :: else -> touch_t() fi;
    unlock(deadlines_lock)
}

inline complete()
{
    atomic { touch_t(); is_completed = true }
}

/* run_cancel_message */
inline run_cancel_message()
{
    cancel_wait();
    if :: is_claimed -> resume_mobile() :: else fi;
    atomic {
        touch_t();
        if :: cancel == SENT -> cancel = DELIVERED :: else -> complete() fi
    }
}

proctype worker()
{
    byte items;
    bool is_claimed;
    do
    :: atomic { is_finished -> break }
    :: atomic { inbox -> items = inbox; inbox = NIL };
        do
        :: items == NIL -> break
        :: items == MESSAGE -> items = next[MESSAGE]; run_cancel_message()
        :: else -> atomic { assert(!(taken & (1 << items))); taken = taken | 1 << items; items = next[items] }
        od
    :: atomic { in_heap -> is_claimed = false }; expire() /* on_timer */
    :: !inbox && !in_heap && !is_finished ->
        if :: wake -> wake = false :: is_finished fi
    od
}

/* T resumes and ends: finish. */
proctype other()
{
    bool is_sent;
    is_shared;
    is_shared = false;
    atomic { assert(claim == CLAIMED); is_sent = cancel == SENT; cancel = FINISHED };
    if :: is_sent :: else -> complete() fi
}

/* The items are placed behind those that were sent in the meantime. */
inline return_to_inbox()
{
    do
#ifdef FAULT_PUT_BACK_BY_STORE
    :: inbox = items; break
#else
    :: atomic { inbox == NIL -> inbox = items }; break
    :: atomic { inbox != NIL -> item = NIL };
        atomic { item = inbox; inbox = NIL; before = item };
        if
        :: item == NIL
        :: else ->
#ifndef FAULT_NEWER_CUT
            do
            :: next[before] == NIL -> break
            :: else -> before = next[before]
            od;
#endif
#ifndef FAULT_NEWER_LOST
            next[before] = items;
            items = item
#endif
        fi
#endif
    od;
#ifndef FAULT_NO_WAKE
    wake = true;
#endif
    atomic { items = NIL; item = NIL; before = NIL }
}

inline deliver_cancels()
{
    atomic { items = inbox; inbox = NIL };
    item = items;
    do
    :: item == NIL -> break
    :: else ->
        later = next[item];
        if :: item == MESSAGE -> cancel_wait() :: else fi;
        if
        :: is_claimed ->
            cancel = DELIVERED;
            resume_mobile();
#ifdef FAULT_NEXT_LATE
            atomic { touch_t(); later = next[MESSAGE] };
#endif
#ifndef FAULT_KEPT_IN_LIST
            if :: before -> next[before] = later :: else -> items = later fi
#endif
        :: else -> before = item
        fi;
        item = later
    od;
    atomic { before = NIL; later = NIL };
    if :: items == NIL :: else -> return_to_inbox() fi
}

proctype monitor()
{
    byte items, before, item, later;
    bool is_claimed, has_taken, has_expired;
    do
    :: atomic { !has_taken && inbox -> has_taken = true }; deliver_cancels()
    :: atomic { !has_expired && in_heap -> has_expired = true }; expire()
    :: is_finished || (has_taken && has_expired) -> break
    od
}

/* gs_worker_send */
inline send(item)
{
    first = inbox;
    do
    :: next[item] = first;
        if
        :: atomic { inbox == first -> inbox = item }; break
        :: atomic { inbox != first -> first = inbox }
        fi
    od;
    if :: first == NIL -> wake = true :: else fi
}

proctype sender()
{
    byte first;
    send(P)
}

proctype canceler()
{
    byte first;
    send(MESSAGE)
}

init
{
    atomic { run worker(); run other(); run monitor(); run sender(); run canceler() }
}
