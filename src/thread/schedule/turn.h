/* Fairness of I/O. A thread whose calls never need to wait would keep its worker. So each call that
 * could have waited spends some of a budget. When the budget is used up, the clock is read: a
 * thread that has run for TURN_NS without a switch then lets others run, and the worker look for
 * events. Counting a call costs a subtraction. */
#ifndef GS_THREAD_TURN_H
#define GS_THREAD_TURN_H

#include "thread/schedule/thread.h"

/* Calls between two readings of the clock, and the bytes that count as a call. */
#define TURN_BUDGET 32
#define TURN_BYTES_SHIFT 14

/* Connections that a thread accepts in a row before others run. The threads that it has started for
 * them use their stacks and sockets while these are in the cache, and may end before the next ones
 * are accepted. */
#define TURN_ACCEPTS 16

/* The budget of the worker is used up. */
void gs_turn_check(struct worker *worker);

/* Count a call with this deadline, which returned n. This may switch threads, unless the deadline
 * is 0: the calling thread may be on another worker afterwards. */
static inline void turn_spend(ssize_t n, uint64_t deadline_ns)
{
    if (!deadline_ns)
        return;
    struct worker *worker = worker_current();
    worker->turn.budget -= 1 + (n > 0 ? n >> TURN_BYTES_SHIFT : 0);
    if (UNLIKELY(worker->turn.budget < 0))
        gs_turn_check(worker);
}

/* A connection is about to be accepted. This may switch threads, unless the deadline is 0. */
static inline void turn_accept(uint64_t deadline_ns)
{
    struct worker *worker = worker_current();
    if (!deadline_ns || ++worker->turn.accepts <= TURN_ACCEPTS)
        return;
    worker->turn.accepts = 1;
    if (!worker->is_stack_in_use)
        gs_thread_yield();
}

#endif
