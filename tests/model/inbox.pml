/* The inbox of a worker and the sleep of its loop: gs_worker_send and take_inbox in src/thread/schedule/worker.c; gs_loop_wake,
 * gs_loop_wake_if_asleep, gs_loop_try_sleep and gs_loop_end_sleep in src/loop/async.c, with gs_loop_run_once as called by
 * run and idle.
 *
 *   sender 0, 1  any kernel threads; each sends ITEMS items
 *   worker       takes the inbox, and sleeps in its loop when the inbox is empty
 *
 * Relaxed loads may return old values: take_inbox may find nothing although the inbox has items, and gs_loop_end_sleep may
 * miss `woken`, unless what the worker has acquired before excludes that. The other accesses are sequentially
 * consistent.
 *
 * Properties: each item is taken once, and the items of a sender in their order; no item is left while the worker
 * sleeps (it would sleep forever, which is an invalid end state).
 * Bounds: two senders of two items.
 *
 * Faults: NOT_WOKEN, LOOK_BEFORE_ASLEEP, WAKE_BEFORE_PUSH, CLEAR_AFTER_TAKE, TAKE_BY_STORE, PUSH_BY_STORE,
 *         CLEAR_RELAXED */
#define SENDERS 2
#define ITEMS 2
#define ALL (SENDERS * ITEMS)
#define NIL 0 /* items are numbered from 1 */

byte inbox = NIL;       /* the newest item */
byte next[ALL + 1];     /* for each item: the one sent before it */
bool asleep, woken;     /* the loop's wake-up */
bool event;             /* the eventfd is readable */
byte sent_view;         /* number of pushes that are visible to a thread that acquires `woken` */
byte pushes, taken_all; /* number of pushes; the number when the worker last took the inbox */
byte known;             /* number of pushes that the worker must see */
byte count;             /* number of items taken */
byte due[SENDERS];      /* the next expected item of each sender */

inline loop_wake()
{
#ifndef FAULT_NOT_WOKEN
    atomic { woken = true; sent_view = (sent_view > mine -> sent_view : mine) };
#endif
    if
    :: asleep ->
        atomic { was_asleep = asleep; asleep = false };
        if :: was_asleep -> event = true :: else fi
    :: else
    fi
}

/* gs_worker_send */
proctype sender(byte id)
{
    byte item = id * ITEMS + 1, first, mine;
    bool was_asleep, is_pushed;
    do
    :: item > id * ITEMS + ITEMS -> break
    :: else ->
#ifdef FAULT_WAKE_BEFORE_PUSH
        if :: inbox == NIL -> loop_wake() :: else fi;
#endif
        first = inbox;
        do
        :: next[item] = first;
#ifdef FAULT_PUSH_BY_STORE
            d_step { inbox = item; pushes++; mine = pushes };
            break
#else
            atomic {
                is_pushed = inbox == first;
                if
                :: is_pushed -> inbox = item; pushes++; mine = pushes
                :: else -> first = inbox
                fi
            };
            if :: is_pushed -> break :: else fi
#endif
        od;
#ifndef FAULT_WAKE_BEFORE_PUSH
        if :: first == NIL -> loop_wake() :: else fi;
#endif
        item++
    od
}

/* The worker takes all items and reverses them; the model walks the list to its end, and checks the
 * order from there. */
inline take_inbox()
{
    if
    :: inbox == NIL
    :: inbox != NIL && known <= taken_all /* the load returned an old value */
    :: inbox != NIL ->
#ifdef FAULT_TAKE_BY_STORE
        first = inbox;
        d_step { inbox = NIL; taken_all = pushes };
#else
        d_step { first = inbox; inbox = NIL; taken_all = pushes };
#endif
        d_step {
            n = 0;
            do
            :: first == NIL -> break
            :: else -> assert(n < ALL); list[n] = first; n++; first = next[first]
            od;
            do
            :: n == 0 -> break
            :: else ->
                n--;
                from = (list[n] - 1) / ITEMS;
                assert(list[n] == from * ITEMS + 1 + due[from]);
                due[from]++;
                count++
            od;
            from = 0;
            first = NIL
        }
    fi
}

/* Acquire: items that were pushed before `woken` was set are visible. */
inline woke_up()
{
    asleep = false;
    if
    :: woken ->
#ifdef FAULT_CLEAR_RELAXED
        woken = false
#else
        d_step { woken = false; known = (known > sent_view -> known : sent_view) }
#endif
    :: true /* the load returned an old value, or false */
    fi
}

active proctype worker()
{
    byte first, n, from, list[ALL];
    bool has_mail;
    do
    ::
#ifndef FAULT_CLEAR_AFTER_TAKE
        take_inbox();
#endif
        /* gs_loop_before_wait */
#ifdef FAULT_LOOK_BEFORE_ASLEEP
        has_mail = woken;
        asleep = true;
#else
        asleep = true;
        has_mail = woken;
#endif
        if
        :: has_mail
        :: else ->
            if :: event -> event = false :: count == ALL -> break fi
        fi;
#ifdef FAULT_CLEAR_AFTER_TAKE
        take_inbox();
#endif
        woke_up()
    od
}

init
{
    atomic { run sender(0); run sender(1) }
}
