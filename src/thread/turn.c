#include "thread/turn.h"

#define TURN_NS GS_MILLISECOND

/* The switches of the worker so far: its counter is ahead by `countdown`. */
static uint64_t switches_of(struct worker *worker)
{
    return count_read(&worker->switches) - (uint64_t)worker->countdown;
}

/* Let others run, and have the worker tick, so that it looks for events. */
static void end_turn(struct worker *worker)
{
    if (worker->countdown > 0) {
        count_add(&worker->switches, -(uint64_t)worker->countdown);
        worker->countdown = 0;
    }
    gs_thread_yield();
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
        end_turn(worker);
    }
}
