#include "load/busy_poll.h"

#include <sys/prctl.h>
#include <time.h>

/* The cost of blocking and being woken: shorter waits are polled. */
static const uint64_t wakeup_cost_ns = 20 * GS_MICROSECOND;
/* The cost of a short sleep. */
static const uint64_t sleep_cost_ns = 5 * GS_MICROSECOND;

enum { SLEEPS_PER_RESPONSE = 32, AVERAGE_WINDOW = 16 };

void gs_load_busy_poll_set_timer_slack(void)
{
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

static void update_average(uint64_t *average_ns, uint64_t latest_ns)
{
    *average_ns += latest_ns / AVERAGE_WINDOW - *average_ns / AVERAGE_WINDOW;
}

void gs_load_busy_poll_record_response(struct load_busy_poll *poll, uint64_t response_ns)
{
    update_average(&poll->average_response_ns, response_ns);
}

static void sleep_briefly(uint64_t ns)
{
    const struct timespec length = {.tv_nsec = (long)ns};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL);
}

static void record_events(struct load_busy_poll *poll, uint64_t now_ns, int count)
{
    /* The cap lets the average recover soon from one long wait. */
    const uint64_t max_gap_ns = AVERAGE_WINDOW * wakeup_cost_ns;
    uint64_t waited_ns = now_ns - poll->idle_since_ns, gap_ns = waited_ns / (uint64_t)count;
    update_average(&poll->average_gap_ns, gap_ns < max_gap_ns ? gap_ns : max_gap_ns);
    poll->idle_ns += waited_ns;
    poll->idle_since_ns = 0;
}

int gs_load_busy_poll_wait(struct load_busy_poll *poll, struct gs_loop *loop)
{
    uint64_t now_ns = gs_clock_now(), sleep_ns = poll->average_response_ns / SLEEPS_PER_RESPONSE;
    bool is_first = !poll->idle_since_ns;
    if (is_first)
        poll->idle_since_ns = now_ns;
    bool is_polling =
        poll->average_gap_ns < wakeup_cost_ns && now_ns - poll->idle_since_ns < wakeup_cost_ns;
    if (is_polling && !is_first && sleep_ns >= sleep_cost_ns)
        sleep_briefly(sleep_ns < wakeup_cost_ns ? sleep_ns : wakeup_cost_ns);
    int count = gs_loop_run_once(loop, is_polling ? 0 : GS_NEVER);
    if (count > 0)
        record_events(poll, gs_loop_now(loop), count);
    return count;
}
