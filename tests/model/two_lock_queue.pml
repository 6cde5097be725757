/* The two-lock queue: serve_queue_push, serve_queue_pop and serve_queue_close in serve/connection/two_lock_queue.c.
 *
 *   putter 0, 1  put two values and one value, each in a new node; the last putter to finish closes the queue
 *   taker 0, 1   take until the queue is closed and empty; one of them may put another value, in a node that it has taken
 *
 * Properties: each value is taken once, and the values of a putter in their order (by one taker); a node is either in
 * the queue or owned by a thread; a take without a value means that the queue was closed and all values were taken;
 * `length` does not drop below 0; no taker waits forever (that would be an invalid end state).
 * Bounds: two putters, three values, two takers, one node that is reused.
 *
 * Faults: LINK_UNLOCKED, TAKE_UNLOCKED, FIRST_GIVEN, POST_FIRST, VALUE_LATE, LENGTH_LATE, TAIL_FIRST */
#define PUTTERS 2
#define TAKERS 2
#define ECHO 4  /* the value that is put in a reused node; putter 0 puts 1 and 2, putter 1 puts 3 */
#define NODES 5 /* node 0: none; 1: the first dummy; 2 to 4: nodes of the putters */
#define NIL 0

byte next[NODES], value[NODES], head = 1, tail = 1, filled, length;
bool head_lock, tail_lock, is_closed, is_used_again;
bool is_free[NODES]; /* not in the queue */
byte taken;          /* the set of values taken */
byte finished;       /* number of putters that have finished */

#define lock(it) atomic { !it -> it = true }
#define unlock(it) it = false

inline put(node, it)
{
    atomic { assert(is_free[node]); is_free[node] = false; value[node] = it };
    next[node] = NIL;
#ifndef FAULT_LENGTH_LATE
    length++;
#endif
#ifdef FAULT_POST_FIRST
    filled++;
#endif
#ifndef FAULT_LINK_UNLOCKED
    lock(tail_lock);
#endif
#ifdef FAULT_TAIL_FIRST
    atomic { before = tail; tail = node };
    unlock(tail_lock);
    next[before] = node;
#else
    before = tail;
    next[before] = node;
    tail = node;
#ifndef FAULT_LINK_UNLOCKED
    unlock(tail_lock);
#endif
#endif
#ifndef FAULT_POST_FIRST
    filled++;
#endif
#ifdef FAULT_LENGTH_LATE
    length++;
#endif
    before = NIL
}

proctype putter(byte id)
{
    byte it = (id == 0 -> 1 : 3), before;
    do
    :: put(it + 1, it);
        if :: it == 1 -> it = 2 :: else -> break fi
    od;
    atomic {
        finished++;
        if :: finished == PUTTERS -> is_closed = true; filled = filled + TAKERS :: else fi
    }
}

proctype taker(byte id)
{
    byte dummy, first, it, before;
    bool has_second;
    do
    :: atomic { filled -> filled-- };
#ifndef FAULT_TAKE_UNLOCKED
        lock(head_lock);
#endif
        dummy = head;
        first = next[dummy];
        if
        :: first != NIL ->
#ifndef FAULT_VALUE_LATE
            it = value[first];
#endif
            head = first
        :: else
        fi;
#ifndef FAULT_TAKE_UNLOCKED
        unlock(head_lock);
#endif
        if :: first == NIL -> assert(is_closed); break :: else fi;
#ifdef FAULT_VALUE_LATE
        it = value[first];
#endif
        atomic { assert(length > 0); length-- };
        d_step {
#ifdef FAULT_FIRST_GIVEN
            dummy = first;
#endif
            assert(it && !(taken & (1 << it)));
            taken = taken | 1 << it;
            assert(!(it == 1 && has_second));
            has_second = has_second || it == 2;
            assert(!is_free[dummy]);
            is_free[dummy] = true;
            value[dummy] = 0;
            it = 0;
            first = NIL
        };
        if
        :: atomic { !is_used_again && !is_closed -> is_used_again = true }; put(dummy, ECHO)
        :: true
        fi;
        dummy = NIL
    od
}

init
{
    atomic {
        is_free[2] = true; is_free[3] = true; is_free[4] = true;
        run putter(0);
        run putter(1);
        run taker(0);
        run taker(1)
    };
    _nr_pr == 1;
    assert(taken == (1 << 1 | 1 << 2 | 1 << 3 | is_used_again << ECHO));
    assert(length == 0)
}
