/* How a wait ends: waiters_pop_claimed, waiter_claim and claimed_make_ready in
 * src/thread/schedule/waiters.h; thread_claim in src/thread/schedule/thread.h; end_wait,
 * gs_thread_abandon_wait, publish and gs_thread_wait_for_object in src/thread/schedule/wait.c; expire in
 * src/thread/schedule/deadlines.c; gs_mobile_cancel_wait and gs_thread_make_ready_mobile in
 * src/thread/schedule/mobile_wait.c. The object waited at is a wait group (src/thread/sync/wait_group.c).
 *
 *   worker 0, 1           run threads; on each, another thread calls gs_wait_group_done once
 *   expiry, cancellation  end a wait of a mobile T, in T's worker or in the monitor on its behalf
 *
 * T waits until the group is done. If it was interrupted, it waits again, without a deadline and
 * uninterruptibly. T is bound to worker 0, or mobile. S waits only for the group, on worker 0, and
 * before T. When the calls of both have returned, the object is freed.
 *
 * Properties: a wait has one outcome and makes its thread ready once, when the thread has left its
 * stack and the queue; an uninterruptible wait is not canceled; the object is not accessed once it is
 * freed; no wake-up is lost (that would be an invalid end state).
 *
 * Bounds: one object, two waiters, two wakers, one deadline, one cancellation.
 *
 * Faults: READY_UNDER_LOCK, NEXT_AFTER_READY, SHORTCUT_ANYWHERE, SHORTCUT_MOBILE,
 *         WAITING_ON_STACK, UNLOCK_FIRST, NO_ABANDON, READY_BEFORE_ABANDON, CANCEL_UNLOCKED,
 *         HEAP_LEFT */
#define T 0
#define S 1
#define NOBODY 2
#define GARBAGE 3

#define CLAIM_NONE 0
#define LEAVING 1
#define WAITING 2
#define WOKEN 3
#define TIMED_OUT 4
#define CANCELED 5

mtype = { NOWHERE, RUNNING, RUN_QUEUE, INBOX, SHARED, ENDED };
mtype at[2] = NOWHERE;

bool mobile, object_lock, queued[2], is_interrupted = true /* interrupted by cancellation */;
bool deadlines_lock[2], in_heap[2];
byte claim[2], claims[2], next[2] = GARBAGE;
byte owner = 0; /* the worker that runs T; NOBODY: none */
byte count = 2;
bool may_time_out = true, may_cancel = true;

#define is_freed (at[T] == ENDED && at[S] == ENDED)
#define lock(it) atomic { !it -> it = true }
#define unlock(it) it = false
#define lock_object() atomic { !object_lock -> assert(!is_freed); object_lock = true }
#define unlock_object() atomic { assert(!is_freed && object_lock); object_lock = false }

/* thread_claim: is_claimed */
inline try_claim(t, outcome)
{
    atomic {
        is_claimed = claim[t] == WAITING;
        if :: is_claimed -> claim[t] = outcome; claims[t]++ :: else fi
    }
}

/* thread_make_ready; by: the calling worker, or NOBODY */
inline make_ready(t, by)
{
    if
    :: t == T && mobile -> /* gs_thread_make_ready_mobile */
        from = owner;
        lock(deadlines_lock[from]);
#ifndef FAULT_HEAP_LEFT
        in_heap[from] = false;
#endif
        owner = NOBODY;
        unlock(deadlines_lock[from]);
        atomic { from = 0; assert(at[t] == NOWHERE); at[t] = SHARED }
    :: else -> atomic { assert(at[t] == NOWHERE); at[t] = (by == 0 -> RUN_QUEUE : INBOX) }
    fi
}

inline abandon_wait(t)
{
#ifndef FAULT_NO_ABANDON
    lock_object();
    queued[t] = false;
    unlock_object()
#else
    skip
#endif
}

/* A deadline or a cancellation on worker 0 ends the wait of a bound T. */
inline end_wait(outcome)
{
    try_claim(T, outcome);
    if :: is_claimed -> abandon_wait(T); make_ready(T, 0) :: else fi
}

/* waiters_claim_all for one waiter; may_store: no other thread can claim it at the same time. */
inline claim_waiter(t, may_store)
{
    if
    :: queued[t] ->
        queued[t] = false;
        if
        :: may_store ->
            is_claimed = claim[t] == WAITING;
            if :: is_claimed -> atomic { claim[t] = WOKEN; claims[t]++ } :: else fi
        :: else -> try_claim(t, WOKEN)
        fi;
        if
        :: is_claimed && first == NOBODY -> first = t; last = t; next[t] = NOBODY
        :: is_claimed && first != NOBODY -> next[last] = t; last = t; next[t] = NOBODY
        :: else
        fi
    :: else
    fi
}

inline ready_claimed()
{
    do
    :: first == NOBODY -> break
    :: else ->
#ifdef FAULT_NEXT_AFTER_READY
        make_ready(first, id);
        assert(next[first] != GARBAGE);
        first = next[first]
#else
        atomic { last = first; first = next[last] };
        make_ready(last, id);
        last = NOBODY
#endif
    od
}

#ifdef FAULT_SHORTCUT_ANYWHERE
#define T_BY_STORE !mobile
#else
#ifdef FAULT_SHORTCUT_MOBILE
#define T_BY_STORE (id == 0)
#else
#define T_BY_STORE (id == 0 && !mobile)
#endif
#endif

inline group_done()
{
    lock_object();
    count--;
    if
    :: count
    :: else -> claim_waiter(S, id == 0); claim_waiter(T, T_BY_STORE)
    fi;
#ifdef FAULT_READY_UNDER_LOCK
    ready_claimed();
    unlock_object()
#else
    unlock_object();
    ready_claimed()
#endif
}

/* Runs T from its start or resumption until it has left its stack. */
inline run_t()
{
    if
    :: claim[T] == CLAIM_NONE
    :: else ->
        d_step {
            assert(claims[T] == 1 && !queued[T]);
            assert(claim[T] == WOKEN || claim[T] == TIMED_OUT || (claim[T] == CANCELED && is_interrupted));
            outcome = claim[T];
            claim[T] = CLAIM_NONE;
            claims[T] = 0;
            next[T] = GARBAGE
        }
    fi;
    if
    :: outcome == WOKEN -> at[T] = ENDED
    :: else ->
        lock_object();
        if
        :: count == 0 -> unlock_object(); at[T] = ENDED
        :: else ->
            queued[T] = true;
            if
            :: outcome == CLAIM_NONE && mobile ->
                lock(deadlines_lock[id]);
                assert(!in_heap[id]);
                in_heap[id] = true;
                unlock(deadlines_lock[id])
            :: outcome == CLAIM_NONE && !mobile -> in_heap[0] = true /* gs_deadline_start */
            :: else -> is_interrupted = false; assert(!mobile || !in_heap[0] && !in_heap[1])
            fi;
#ifdef FAULT_WAITING_ON_STACK
            claim[T] = WAITING;
#else
            claim[T] = (mobile -> LEAVING : WAITING);
#endif
            at[T] = NOWHERE; /* the worker is on the next thread's stack from here */
#ifdef FAULT_UNLOCK_FIRST
            unlock_object();
            claim[T] = WAITING
#else
            claim[T] = WAITING;
            unlock_object()
#endif
        fi
    fi;
    outcome = CLAIM_NONE
}

proctype worker(byte id)
{
    byte first = NOBODY, last = NOBODY, outcome, from;
    bool is_claimed, has_called;
    do
    :: atomic { is_freed && has_called -> break }
    :: atomic { !has_called -> has_called = true }; group_done(); is_claimed = false
    :: atomic { id == 0 && at[T] == INBOX -> at[T] = RUN_QUEUE }
    :: atomic { id == 0 && at[S] == INBOX -> at[S] = RUN_QUEUE }
    :: atomic { id == 0 && at[S] == RUN_QUEUE -> assert(claims[S] == 1); at[S] = ENDED; next[S] = GARBAGE }
    :: atomic { at[T] == SHARED || (id == 0 && at[T] == RUN_QUEUE) -> at[T] = RUNNING; owner = id }; run_t()
    :: atomic { id == 0 && !mobile && in_heap[0] && may_time_out -> may_time_out = false; in_heap[0] = false };
        end_wait(TIMED_OUT); is_claimed = false
    :: atomic { id == 0 && !mobile && may_cancel && at[T] != ENDED -> may_cancel = false };
        if
        :: claim[T] == WAITING && is_interrupted -> end_wait(CANCELED); is_claimed = false
        :: else
        fi
    od
}

inline abandon_and_make_ready()
{
    if
    :: is_claimed ->
#ifdef FAULT_READY_BEFORE_ABANDON
        make_ready(T, NOBODY);
        abandon_wait(T)
#else
        abandon_wait(T);
        make_ready(T, NOBODY)
#endif
    :: else
    fi
}

/* expire */
proctype expiry()
{
    byte from, w;
    bool is_claimed;
    do
    :: atomic { is_freed -> break }
    :: atomic { in_heap[0] || in_heap[1] -> w = (in_heap[0] -> 0 : 1) };
        lock(deadlines_lock[w]);
        if
        :: in_heap[w] && claim[T] != CLAIM_NONE && claim[T] != LEAVING ->
            try_claim(T, TIMED_OUT);
            in_heap[w] = false
        :: else
        fi;
        unlock(deadlines_lock[w]);
        abandon_and_make_ready();
        is_claimed = false
    od
}

/* gs_mobile_cancel_wait */
proctype cancellation()
{
    byte from, w;
    bool is_claimed;
    do
    :: atomic { is_freed -> break }
    :: atomic { owner != NOBODY -> w = owner };
#ifdef FAULT_CANCEL_UNLOCKED
        if
        :: owner == w && claim[T] == WAITING && is_interrupted -> try_claim(T, CANCELED)
        :: else
        fi;
#else
        lock(deadlines_lock[w]);
        if
        :: owner == w && claim[T] == WAITING && is_interrupted -> try_claim(T, CANCELED)
        :: else
        fi;
        unlock(deadlines_lock[w]);
#endif
        abandon_and_make_ready();
        break
    od
}

init
{
    atomic {
        claim[S] = WAITING;
        queued[S] = true;
        at[T] = RUN_QUEUE;
        if
        :: mobile = true; run expiry(); run cancellation()
        :: mobile = false
        fi;
        run worker(0);
        run worker(1)
    }
}
