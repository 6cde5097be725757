/* Asyncs: gs_async_send, take_sent, gs_loop_collect_asyncs, gs_loop_async_received, gs_loop_wake_if_asleep and
 * gs_loop_try_sleep in src/loop/async.c.
 *
 *   sender 0, 1  any kernel threads: each writes something and sends, twice
 *   loop         collects, calls the callbacks, and sleeps when there is nothing to do
 *
 * Both asyncs of the loop may be sent. Weakly ordered processors: an async's state has a view, the set of writes that are
 * visible to a thread that acquires the state; a read-modify-write adds the caller's view to it.
 *
 * Properties: a callback sees what was written before each send for which it is called; an async is in the list at most
 * once; no send is lost while the loop sleeps (that would be an invalid end state).
 * Bounds: two senders with two sends each, the first one's to either async, the second one's to the second async.
 *
 * Faults: RECEIVED_BY_STORE, RECEIVED_LATE, LOOK_FIRST, LOOK_BEFORE_ASLEEP, TAKE_BY_STORE, NOT_ENDED */
#define ASYNCS 2
#define NIL 2
#define END 3 /* no next element */
#define SEEN_BY_CALLBACK(a) (unseen[a] & ~me) == 0

byte state[ASYNCS], view[ASYNCS], unseen[ASYNCS]; /* unseen: sends without a callback yet */
byte sent = NIL, link[ASYNCS] = END, seen;
bool asleep, event;

inline end_wait()
{
    if
    :: asleep ->
        atomic { was_asleep = asleep; asleep = false };
        if :: was_asleep -> event = true :: else fi
    :: else
    fi
}

inline send(a, mark)
{
    me = me | mark; /* the write before the send */
#ifdef FAULT_LOOK_FIRST
    if
    :: atomic { state[a] -> former = 1; unseen[a] = unseen[a] | mark } /* only a read: publishes nothing */
    :: atomic { !state[a] -> former = 0; state[a] = 1; unseen[a] = unseen[a] | mark; view[a] = view[a] | me }
    fi;
#else
    d_step { former = state[a]; state[a] = 1; unseen[a] = unseen[a] | mark; view[a] = view[a] | me; me = view[a] };
#endif
    if
    :: former
    :: else ->
        first = sent;
        do
        :: atomic { assert(link[a] == END || link[a] == first); link[a] = first };
            if
            :: atomic { sent == first -> sent = a }; break
            :: atomic { sent != first -> first = sent; link[a] = END }
            fi
        od;
#ifndef FAULT_NOT_ENDED
        end_wait()
#endif
    fi
}

proctype sender(byte id)
{
    byte me, first, former;
    bool was_asleep;
    if :: send(0, 1 << (2 * id)) :: send(1, 1 << (2 * id)) fi;
    send(1, 2 << (2 * id))
}

/* gs_loop_async_received and the callback */
inline call(a)
{
#ifdef FAULT_RECEIVED_LATE
    d_step { me = me | view[a]; assert(SEEN_BY_CALLBACK(a)); seen = seen | unseen[a]; unseen[a] = 0 };
    state[a] = 0
#else
#ifdef FAULT_RECEIVED_BY_STORE
    d_step { state[a] = 0; view[a] = 0; assert(SEEN_BY_CALLBACK(a)); seen = seen | unseen[a]; unseen[a] = 0 }
#else
    d_step { state[a] = 0; me = me | view[a]; assert(SEEN_BY_CALLBACK(a)); seen = seen | unseen[a]; unseen[a] = 0 }
#endif
#endif
}

active proctype loop()
{
    byte me, taken = NIL, other;
    bool has_mail;
    do
    :: seen == 15 -> break
    :: else ->
#ifdef FAULT_LOOK_BEFORE_ASLEEP
        has_mail = sent != NIL;
        asleep = true;
#else
        asleep = true;
        has_mail = sent != NIL;
#endif
        if :: has_mail :: else -> event; event = false fi;
        asleep = false;
#ifdef FAULT_TAKE_BY_STORE
        taken = sent;
        sent = NIL;
#else
        atomic { taken = sent; sent = NIL };
#endif
        do
        :: taken == NIL -> break
        :: else -> d_step { other = taken; taken = link[other]; link[other] = END }; call(other)
        od
    od
}

init
{
    atomic { run sender(0); run sender(1) }
}
