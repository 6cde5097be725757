#include "load/pace.h"

#include <sys/prctl.h>
#include <time.h>

/* What it costs to sleep and be woken: shorter waits are passed awake. */
static const uint64_t worth_sleeping_ns = 20 * GS_MICROSECOND;
/* What it costs to take a nap. */
static const uint64_t worth_napping_ns = 5 * GS_MICROSECOND;

enum { NAPS_PER_RESPONSE = 32, AVERAGED = 16 };

void gs_load_pace_begin(void)
{
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

static void average(uint64_t *usual_ns, uint64_t latest_ns)
{
    *usual_ns += latest_ns / AVERAGED - *usual_ns / AVERAGED;
}

void gs_load_pace_answer(struct load_pace *pace, uint64_t response_ns)
{
    average(&pace->usual_response_ns, response_ns);
}

static void nap(uint64_t ns)
{
    const struct timespec length = {.tv_nsec = (long)ns};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL);
}

static void learn(struct load_pace *pace, uint64_t now_ns, int count)
{
    const uint64_t longest_ns = AVERAGED * worth_sleeping_ns; /* one long wait is soon forgotten */
    uint64_t waited_ns = now_ns - pace->since_ns, gap_ns = waited_ns / (uint64_t)count;
    average(&pace->usual_gap_ns, gap_ns < longest_ns ? gap_ns : longest_ns);
    pace->idle_ns += waited_ns;
    pace->since_ns = 0;
}

int gs_load_pace_wait(struct load_pace *pace, struct gs_loop *loop)
{
    uint64_t now_ns = gs_clock_now(), nap_ns = pace->usual_response_ns / NAPS_PER_RESPONSE;
    bool is_first = !pace->since_ns;
    if (is_first)
        pace->since_ns = now_ns;
    bool looks =
        pace->usual_gap_ns < worth_sleeping_ns && now_ns - pace->since_ns < worth_sleeping_ns;
    if (looks && !is_first && nap_ns >= worth_napping_ns)
        nap(nap_ns < worth_sleeping_ns ? nap_ns : worth_sleeping_ns);
    int count = gs_loop_step(loop, looks ? 0 : GS_NEVER);
    if (count > 0)
        learn(pace, gs_loop_now(loop), count);
    return count;
}
