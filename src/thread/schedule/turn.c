#include "thread/schedule/turn.h"

#define TURN_NS GS_MILLISECOND

/* The switches of the worker so far: its counter is ahead by `countdown`. */
static uint64_t switches_of(struct worker *worker)
{
    return count_read(&worker->switches) - (uint64_t)worker->countdown;
}

void gs_turn_check(struct worker *worker)
{
    struct turn *turn = &worker->turn;
    uint64_t now_ns = gs_clock_now();
    turn->budget = TURN_BUDGET;
    if (turn->switches != switches_of(worker)) {
        turn->switches = switches_of(worker);
        turn->since_ns = now_ns;
    } else if (now_ns - turn->since_ns >= TURN_NS && !worker->is_stack_in_use) {
        gs_thread_end_turn();
    }
}
