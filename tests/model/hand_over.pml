/* What the monitor does on behalf of a stuck worker, which may continue at any moment: help_stuck in
 * src/thread/schedule/monitor.c; give, deliver, deliver_all and gs_cancels_deliver_for_stuck in
 * src/thread/schedule/cancel.c; on_timer and gs_deadlines_expire_for_stuck in
 * src/thread/schedule/deadlines.c; gs_mobile_cancel_wait and gs_thread_make_ready_mobile in
 * src/thread/schedule/mobile_wait.c.
 *
 *   worker     may be stuck: any of its steps may take long
 *   other      another worker, on which T resumes
 *   monitor    takes the worker's list of cancellations once, and expires its deadlines once,
 *              whether or not the worker is stuck
 *   second     cancels P, a thread that stays on the worker; the list has another one, Q, at first
 *   canceler   cancels T
 *
 * T is mobile, waits on the worker with a deadline, and ends when it has resumed. It is completed
 * then, or by the one that delivers its cancellation if that has not happened yet; T and its link
 * are gone afterwards. (cancel.pml models a T that waits again on another worker.)
 *
 * Properties: P and Q are delivered once; T is claimed once and completed once; T and its link are
 * not accessed afterwards; nothing is lost (that would be an invalid end state).
 *
 * Bounds: three threads in the list, one round of cancellations, two expiries.
 *
 * Faults: GIVEN_BY_STORE, NO_WAKE, DELIVERED_AND_GIVEN, NEXT_LATE, EXPIRE_UNLOCKED */
#define NIL 0
#define P 1
#define Q 2
#define T 3

#define WAITING 1
#define CLAIMED 2

mtype = { SENT, DELIVERED, FINISHED };
mtype cancel = SENT;

byte list = Q, next[4], delivered;
bool wake, deadlines_lock, in_heap = true, is_home = true /* is_home: T belongs to this worker */;
byte claim = WAITING;
bool is_shared, is_completed;

#define is_finished (delivered == (1 << P | 1 << Q) && is_completed)
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

/* expire */
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

/* deliver */
inline deliver()
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
    :: atomic { list -> items = list; list = NIL };
        do
        :: items == NIL -> break
        :: items == T -> items = next[T]; deliver()
        :: else ->
            atomic {
                assert(!(delivered & (1 << items)));
                delivered = delivered | 1 << items;
                items = next[items]
            }
        od
    :: atomic { in_heap -> is_claimed = false }; expire() /* on_timer */
    :: !list && !in_heap && !is_finished ->
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

inline give(item)
{
    first = list;
    do
    :: next[item] = first;
        if
#ifdef FAULT_GIVEN_BY_STORE
        :: list = item; break
#else
        :: atomic { list == first -> list = item }; break
        :: atomic { list != first -> first = list }
#endif
        fi
    od;
#ifndef FAULT_NO_WAKE
    if :: first == NIL -> wake = true :: else fi
#endif
}

/* gs_cancels_deliver_for_stuck */
inline deliver_for_stuck()
{
    atomic { items = list; list = NIL };
    do
    :: items == NIL -> break
    :: else ->
        later = next[items];
        if :: items == T -> cancel_wait() :: else fi;
        if
        :: is_claimed ->
            cancel = DELIVERED;
            resume_mobile();
#ifdef FAULT_DELIVERED_AND_GIVEN
            give(T)
#endif
        :: else -> give(items)
        fi;
#ifdef FAULT_NEXT_LATE
        atomic { if :: items == T -> touch_t() :: else fi; later = next[items] };
#endif
        atomic { items = later; later = NIL }
    od
}

proctype monitor()
{
    byte items, later, first;
    bool is_claimed, has_taken, has_expired;
    do
    :: atomic { !has_taken && list -> has_taken = true }; deliver_for_stuck()
    :: atomic { !has_expired && in_heap -> has_expired = true }; expire()
    :: is_finished || (has_taken && has_expired) -> break
    od
}

proctype second()
{
    byte first;
    give(P)
}

proctype canceler()
{
    byte first;
    give(T)
}

init
{
    atomic { run worker(); run other(); run monitor(); run second(); run canceler() }
}
