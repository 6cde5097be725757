/* Durations that are given as the deadlines of timers. */
#include "tests/thread/checked/misuse.h"

#include <gossamer/loop.h>

#define SPAN (5 * GS_SECOND)
#define IS_SPAN                                                                                    \
    "the deadline 5.000000 s is long before the start of the program: a duration, without "        \
    "gs_clock_now\\(\\)\\?"

#define SKIP_AFTER_BOOT                                                                            \
    do {                                                                                           \
        if (gs_clock_now() < 4 * SPAN)                                                             \
            SKIP("the machine was booted less than 20 s ago");                                     \
    } while (0)

static struct gs_loop *loop;
static struct gs_timer timer;
static int fired;

static void on_timer(struct gs_timer *unused)
{
    (void)unused;
    fired++;
}

static void on_oneshot(struct gs_oneshot *unused, unsigned events)
{
    (void)unused, (void)events;
    fired++;
}

static void make_loop(void)
{
    MUST_EQ(gs_loop_new(&loop), 0);
    gs_timer_init(&timer, loop, on_timer);
}

static void start(void)
{
    report_to_stderr();
    make_loop();
    gs_timer_start(&timer, SPAN);
}

static void start_repeat(void)
{
    report_to_stderr();
    make_loop();
    MUST_EQ(gs_timer_start_repeat(&timer, SPAN, GS_SECOND), 0);
}

static void run_once(void)
{
    report_to_stderr();
    make_loop();
    gs_loop_run_once(loop, SPAN);
}

static void start_oneshot(void)
{
    struct gs_oneshot oneshot;
    report_to_stderr();
    make_loop();
    gs_oneshot_init(&oneshot, loop, on_oneshot);
    MUST_EQ(gs_oneshot_start(&oneshot, -1, 0, SPAN), 0);
}

TEST(a_duration_is_no_deadline)
{
    SKIP_AFTER_BOOT;
    CHECK_STOPPED(start, "gs_timer_start", IS_SPAN);
    CHECK_STOPPED(start_repeat, "gs_timer_start_repeat", IS_SPAN);
    CHECK_STOPPED(run_once, "gs_loop_run_once", IS_SPAN);
    CHECK_STOPPED(start_oneshot, "gs_oneshot_start", IS_SPAN);
}

TEST(a_timer_that_is_late_is_called)
{
    make_loop();
    fired = 0;
    CHECK_EQ(gs_timer_start(&timer, gs_loop_now(loop)), 0);
    CHECK_EQ(gs_loop_run_once(loop, 0), 1);
    CHECK_EQ(gs_timer_start(&timer, 0), 0);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    CHECK_EQ(gs_timer_start(&timer, gs_clock_now() + GS_MILLISECOND), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(fired, 3);
    gs_loop_free(loop);
}

static uint64_t test_clock(void *now_ns)
{
    return *(uint64_t *)now_ns;
}

TEST(a_clock_of_a_test_may_begin_at_0)
{
    uint64_t now_ns = 0;
    make_loop();
    fired = 0;
    gs_loop_set_clock(loop, test_clock, &now_ns);
    CHECK_EQ(gs_timer_start(&timer, SPAN), 0);
    CHECK_EQ(gs_loop_run_once(loop, 0), 0);
    now_ns = SPAN;
    CHECK_EQ(gs_loop_run_once(loop, 1), 1);
    CHECK_EQ(fired, 1);
    gs_loop_free(loop);
}
