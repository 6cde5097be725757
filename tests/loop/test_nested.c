/* Nested runs of a loop, and stopping all of them. */
#include "tests/loop/fixture.h"

static struct gs_loop *loop;

static struct gs_timer outer_timer, middle_timer, inner_timer, last_timer;

static void run_within(struct gs_timer *timer)
{
    log_call(&timer->watcher);
    struct gs_timer *next = timer == &outer_timer ? &middle_timer : &inner_timer;
    if (gs_timer_start(next, 1) || gs_loop_run(loop))
        abort();
    strcat(calls, ")");
}

static void stop_all_runs(struct gs_timer *timer)
{
    log_call(&timer->watcher);
    gs_loop_stop_all(loop);
    /* From now on, new runs return at once. */
    if (gs_loop_run(loop))
        abort();
}

static void set_up_nested(gs_timer_fn *innermost)
{
    loop = new_loop();
    gs_timer_init(&outer_timer, loop, run_within);
    gs_timer_init(&middle_timer, loop, run_within);
    gs_timer_init(&inner_timer, loop, innermost);
    gs_timer_init(&last_timer, loop, log_timer);
    outer_timer.watcher.data = middle_timer.watcher.data = "(";
    inner_timer.watcher.data = "x";
    last_timer.watcher.data = "l";
    if (gs_timer_start(&outer_timer, 1) || gs_timer_start(&last_timer, GS_NEVER))
        abort();
}

TEST(stop_all_ends_every_run_however_deep)
{
    set_up_nested(stop_all_runs);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "((x))");
    CHECK(gs_watcher_is_active(&last_timer.watcher));
    /* The next outermost run must not be affected. */
    CHECK_EQ(gs_timer_start(&last_timer, 1), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "((x))l");
    gs_loop_free(loop);
}

TEST(stop_all_outside_of_a_run_does_nothing)
{
    loop = new_loop();
    gs_timer_init(&last_timer, loop, log_timer);
    last_timer.watcher.data = "l";
    CHECK_EQ(gs_timer_start(&last_timer, 1), 0);
    gs_loop_stop_all(loop);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "l");
    gs_loop_free(loop);
}
