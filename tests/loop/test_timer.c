#include "tests/loop/fixture.h"

static uint64_t clock_ns;

static uint64_t read_clock(void *data)
{
    (void)data;
    return clock_ns;
}

static struct gs_loop *loop;
static struct gs_timer a, b, c;

static void set_up(void)
{
    struct gs_timer *all[] = {&a, &b, &c};
    char *names[] = {"a", "b", "c"};
    loop = new_loop();
    clock_ns = 1000;
    gs_loop_set_clock(loop, read_clock, NULL);
    for (int i = 0; i < 3; i++) {
        gs_timer_init(all[i], loop, log_timer);
        all[i]->watcher.data = names[i];
    }
}

static int step_at(uint64_t now_ns)
{
    clock_ns = now_ns;
    return step(loop);
}

#define TIMER_TEST(name_) FIXTURE_TEST(name_, set_up(), gs_loop_free(loop))

TIMER_TEST(timer_fires_once_when_its_deadline_is_reached)
{
    CHECK_EQ(gs_timer_start(&a, 2000), 0);
    CHECK_EQ(step_at(1999), 0);
    CHECK(gs_watcher_is_active(&a.watcher));
    CHECK_EQ(step_at(2000), 1);
    CHECK(!gs_watcher_is_active(&a.watcher));
    CHECK_EQ(step_at(9000), 0);
}

TIMER_TEST(timers_that_are_due_are_called_by_deadline)
{
    CHECK_EQ(gs_timer_start(&b, 3000), 0);
    CHECK_EQ(gs_timer_start(&c, 2000), 0);
    CHECK_EQ(gs_timer_start(&a, 4000), 0);
    CHECK_EQ(step_at(5000), 3);
    CHECK_STR(calls, "cba");
}

TIMER_TEST(deadline_that_has_passed_is_due_in_the_next_iteration)
{
    CHECK_EQ(gs_timer_start(&a, 0), 0);
    CHECK_EQ(step_at(1000), 1);
}

TIMER_TEST(timer_without_a_deadline_never_fires)
{
    CHECK_EQ(gs_timer_start(&a, GS_NEVER), 0);
    CHECK_EQ(step_at(UINT64_MAX - 1), 0);
    CHECK(gs_watcher_is_active(&a.watcher));
}

TIMER_TEST(timer_moved_to_later_fires_then_only)
{
    CHECK_EQ(gs_timer_start(&a, 2000), 0);
    CHECK_EQ(gs_timer_start(&b, 2500), 0);
    CHECK_EQ(gs_timer_start(&a, 3000), 0);
    CHECK_EQ(a.watcher.index, GS_HEAP_ROOT);
    CHECK_EQ(gs_heap_first(&loop->timers.near)->key, 2000);
    CHECK_EQ(step_at(2400), 0);
    CHECK_EQ(step_at(2600), 1);
    CHECK_STR(calls, "b");
    CHECK_EQ(step_at(3000), 1);
    CHECK_STR(calls, "ba");
}

TIMER_TEST(order_by_deadline_holds_for_moved_timers)
{
    CHECK_EQ(gs_timer_start(&a, 2000), 0);
    CHECK_EQ(gs_timer_start(&b, 2100), 0);
    CHECK_EQ(gs_timer_start(&c, 2200), 0);
    CHECK_EQ(gs_timer_start(&a, 5000), 0);
    CHECK_EQ(gs_timer_start(&b, 4000), 0);
    CHECK_EQ(gs_timer_start(&c, 3000), 0);
    CHECK_EQ(step_at(6000), 3);
    CHECK_STR(calls, "cba");
}

TIMER_TEST(timer_moved_to_earlier_fires_then)
{
    CHECK_EQ(gs_timer_start(&b, 3000), 0);
    CHECK_EQ(gs_timer_start(&a, 9000), 0);
    CHECK_EQ(gs_timer_start(&a, 2000), 0);
    CHECK_EQ(step_at(2000), 1);
    CHECK_STR(calls, "a");
    CHECK_EQ(step_at(9000), 1);
    CHECK_STR(calls, "ab");
}

TIMER_TEST(timer_moved_to_later_and_back_fires_at_the_last_deadline_given)
{
    CHECK_EQ(gs_timer_start(&a, 2000), 0);
    CHECK_EQ(gs_timer_start(&a, 9000), 0);
    CHECK_EQ(gs_timer_start(&a, 4000), 0);
    CHECK_EQ(step_at(3999), 0);
    CHECK_EQ(step_at(4000), 1);
}

TIMER_TEST(stopped_timer_never_fires)
{
    CHECK_EQ(gs_timer_start(&a, 2000), 0);
    gs_timer_stop(&a);
    gs_timer_stop(&a);
    CHECK_EQ(step_at(3000), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
}

static void stop_b(struct gs_timer *timer)
{
    log_timer(timer);
    gs_timer_stop(&b);
}

TIMER_TEST(timer_stopped_while_due_is_not_called)
{
    gs_timer_init(&a, loop, stop_b);
    a.watcher.data = "a";
    CHECK_EQ(gs_timer_start(&a, 2000), 0);
    CHECK_EQ(gs_timer_start(&b, 2001), 0);
    CHECK_EQ(step_at(3000), 1);
    CHECK_STR(calls, "a");
}

static void move_b(struct gs_timer *timer)
{
    log_timer(timer);
    (void)gs_timer_start(&b, 5000);
}

TIMER_TEST(timer_moved_while_due_is_not_called_for_its_former_deadline)
{
    gs_timer_init(&a, loop, move_b);
    a.watcher.data = "a";
    CHECK_EQ(gs_timer_start(&a, 2000), 0);
    CHECK_EQ(gs_timer_start(&b, 2001), 0);
    CHECK_EQ(step_at(3000), 1);
    CHECK_EQ(step_at(4999), 0);
    CHECK_EQ(step_at(5000), 1);
    CHECK_STR(calls, "ab");
}

static void again_in_100(struct gs_timer *timer)
{
    log_timer(timer);
    (void)gs_timer_start(timer, timer->deadline_ns + 100);
}

TIMER_TEST(timer_started_again_in_its_own_callback_fires_in_a_later_iteration)
{
    gs_timer_init(&a, loop, again_in_100);
    a.watcher.data = "a";
    CHECK_EQ(gs_timer_start(&a, 2000), 0);
    CHECK_EQ(step_at(5000), 1);
    CHECK_EQ(step_at(5000), 1);
    CHECK_EQ(a.deadline_ns, 2200);
}

TIMER_TEST(repeated_timer_fires_on_its_grid_and_drops_intervals_that_passed)
{
    CHECK_EQ(gs_timer_start_repeat(&a, 2000, 100), 0);
    CHECK_EQ(step_at(1999), 0);
    CHECK_EQ(step_at(2000), 1);
    CHECK_EQ(step_at(2099), 0);
    CHECK_EQ(step_at(2100), 1);
    CHECK_EQ(step_at(2750), 1);
    CHECK_EQ(step_at(2799), 0);
    CHECK_EQ(step_at(2800), 1);
    CHECK_EQ(step_at(2900), 1);
    gs_timer_stop(&a);
    CHECK_EQ(step_at(9000), 0);
}

TIMER_TEST(repeated_timer_started_once_fires_once)
{
    CHECK_EQ(gs_timer_start_repeat(&a, 2000, 100), 0);
    CHECK_EQ(gs_timer_start(&a, 3000), 0);
    CHECK_EQ(step_at(4000), 1);
    CHECK_EQ(step_at(5000), 0);
    CHECK_EQ(gs_timer_start_repeat(&a, 2000, 0), -EINVAL);
}

static void stop_itself(struct gs_timer *timer)
{
    log_timer(timer);
    gs_timer_stop(timer);
}

TIMER_TEST(timer_stopped_in_its_own_callback_never_fires_again)
{
    gs_timer_init(&a, loop, stop_itself);
    a.watcher.data = "a";
    CHECK_EQ(gs_timer_start_repeat(&a, 2000, 1), 0);
    CHECK_EQ(step_at(3000), 1);
    CHECK_EQ(step_at(4000), 0);
}

TIMER_TEST(loop_waits_in_real_time_until_the_next_timer)
{
    gs_loop_set_clock(loop, NULL, NULL);
    uint64_t start_ns = gs_clock_now();
    CHECK_EQ(gs_timer_start(&a, start_ns + GS_MILLISECOND), 0);
    CHECK_EQ(gs_timer_start(&a, start_ns + 5 * GS_MILLISECOND), 0);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    CHECK(gs_clock_now() >= start_ns + 5 * GS_MILLISECOND);
    CHECK(gs_loop_now(loop) >= start_ns + 5 * GS_MILLISECOND);
}

TIMER_TEST(cached_time_is_read_again_on_request_only)
{
    clock_ns = 5000;
    CHECK_EQ(gs_loop_now(loop), 1000);
    gs_loop_update_now(loop);
    CHECK_EQ(gs_loop_now(loop), 5000);
}
