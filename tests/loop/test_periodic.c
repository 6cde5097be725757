/* Periodics follow the wall clock when it is set. */
#include "tests/loop/fixture.h"
#include "tests/refused_call.h"

#include <sys/eventfd.h>

static struct gs_loop *loop;
static struct gs_periodic a, b;
static uint64_t wall_ns;

static uint64_t read_wall(void *data)
{
    (void)data;
    return wall_ns;
}

static void on_time(struct gs_periodic *periodic)
{
    log_call(&periodic->watcher);
}

static void set_up(void)
{
    loop = new_loop();
    wall_ns = 1000;
    gs_loop_set_wall_clock(loop, read_wall, NULL);
    gs_periodic_init(&a, loop, on_time);
    gs_periodic_init(&b, loop, on_time);
    a.watcher.data = "a";
    b.watcher.data = "b";
}

/* Run an iteration at the wall-clock time `now_ns`. Returns the log of its calls. */
static const char *calls_at(uint64_t now_ns)
{
    clear_calls();
    wall_ns = now_ns;
    step(loop);
    return calls;
}

#define PERIODIC_TEST(name_) FIXTURE_TEST(name_, set_up(), gs_loop_free(loop))

PERIODIC_TEST(periodic_fires_once_at_its_time_and_is_inactive_then)
{
    CHECK_EQ(gs_periodic_start(&a, 1500), 0);
    CHECK_EQ(gs_periodic_next(&a), 1500);
    CHECK_STR(calls_at(1499), "");
    CHECK(gs_watcher_is_active(&a.watcher));
    CHECK_STR(calls_at(1500), "a");
    CHECK(!gs_watcher_is_active(&a.watcher));
    CHECK_STR(calls_at(3000), "");
    CHECK_EQ(gs_loop_run(loop), 0);
}

PERIODIC_TEST(time_that_has_passed_already_fires_at_once)
{
    CHECK_EQ(gs_periodic_start(&a, 0), 0);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    CHECK_STR(calls, "a");
}

PERIODIC_TEST(interval_fires_at_its_multiples_from_the_offset)
{
    CHECK_EQ(gs_periodic_start_repeat(&a, 30, 100), 0);
    CHECK_EQ(gs_periodic_next(&a), 1030);
    CHECK_STR(calls_at(1029), "");
    CHECK_STR(calls_at(1030), "a");
    CHECK_STR(calls_at(1030), "");
    CHECK_STR(calls_at(1129), "");
    CHECK_STR(calls_at(1131), "a");
    CHECK_EQ(gs_periodic_next(&a), 1230);
    CHECK_EQ(gs_periodic_start_repeat(&b, 777777, 0), -EINVAL);
    CHECK(!gs_watcher_is_active(&b.watcher));
}

PERIODIC_TEST(offset_may_lie_in_the_future_and_beyond_the_interval)
{
    CHECK_EQ(gs_periodic_start_repeat(&a, 100000000000030, 100), 0);
    CHECK_EQ(gs_periodic_next(&a), 1030);
    wall_ns = 5;
    CHECK_EQ(gs_periodic_start_repeat(&b, 30, 100), 0);
    CHECK_EQ(gs_periodic_next(&b), 30);
    wall_ns = GS_NEVER - 50;
    CHECK_EQ(gs_periodic_start_repeat(&b, 0, 1000), 0);
    CHECK_EQ(gs_periodic_next(&b), GS_NEVER);
}

PERIODIC_TEST(times_that_passed_unseen_or_were_jumped_over_are_called_for_once)
{
    CHECK_EQ(gs_periodic_start_repeat(&a, 0, 100), 0);
    CHECK_STR(calls_at(1000000050), "a");
    CHECK_EQ(gs_periodic_next(&a), 1000000100);
    CHECK_STR(calls_at(1000000099), "");
}

PERIODIC_TEST(jump_back_makes_the_next_time_the_first_after_it)
{
    wall_ns = 1000000;
    CHECK_EQ(gs_periodic_start_repeat(&a, 0, 100), 0);
    CHECK_EQ(gs_periodic_start(&b, 1000500), 0);
    CHECK_STR(calls_at(1000100), "a");
    CHECK_STR(calls_at(5050), "");
    CHECK_EQ(gs_periodic_next(&a), 5100);
    CHECK_EQ(gs_periodic_next(&b), 1000500);
    CHECK_STR(calls_at(5100), "a");
    CHECK_STR(calls_at(1000500), "ab");
}

PERIODIC_TEST(jump_back_by_less_than_the_interval_may_bring_a_time_twice)
{
    CHECK_EQ(gs_periodic_start_repeat(&a, 0, 100), 0);
    CHECK_STR(calls_at(1100), "a");
    CHECK_STR(calls_at(1099), "");
    CHECK_STR(calls_at(1100), "a");
    CHECK_STR(calls_at(1100), "");
}

PERIODIC_TEST(jump_back_between_two_starts_is_seen_for_the_first)
{
    wall_ns = 10050;
    CHECK_EQ(gs_periodic_start_repeat(&a, 0, 100), 0);
    wall_ns = 2050;
    CHECK_EQ(gs_periodic_start_repeat(&b, 50, 100), 0);
    CHECK_STR(calls_at(2100), "");
    CHECK_EQ(gs_periodic_next(&a), 2200);
    CHECK_STR(calls_at(2200), "ba");
}

PERIODIC_TEST(jump_back_ends_no_time_that_is_due_all_the_same)
{
    CHECK_EQ(gs_periodic_start_repeat(&a, 0, 100), 0);
    wall_ns = 5000;
    CHECK_EQ(gs_periodic_start(&b, 6000), 0);
    CHECK_STR(calls_at(4500), "a");
    CHECK_STR(calls_at(6000), "ab");
}

static uint64_t queried_at_ns, next_ns;

static uint64_t reschedule(struct gs_periodic *periodic, uint64_t now_ns)
{
    (void)periodic;
    queried_at_ns = now_ns;
    return next_ns;
}

PERIODIC_TEST(reschedule_callback_returns_each_next_time)
{
    next_ns = 1700;
    CHECK_EQ(gs_periodic_start_with(&a, reschedule), 0);
    CHECK_EQ(queried_at_ns, 1000);
    next_ns = 2500;
    CHECK_STR(calls_at(1699), "");
    CHECK_STR(calls_at(1800), "a");
    CHECK_EQ(queried_at_ns, 1800);
    next_ns = GS_NEVER;
    CHECK_STR(calls_at(2499), "");
    CHECK_STR(calls_at(2500), "a");
    CHECK_STR(calls_at(GS_NEVER - 1), "");
    next_ns = 400;
    CHECK_STR(calls_at(300), "");
    CHECK_EQ(queried_at_ns, 300);
    CHECK_STR(calls_at(400), "a");
}

PERIODIC_TEST(rescheduled_time_that_is_not_later_counts_as_the_next_nanosecond)
{
    next_ns = 0;
    CHECK_EQ(gs_periodic_start_with(&a, reschedule), 0);
    CHECK_EQ(gs_periodic_next(&a), 1001);
    CHECK_STR(calls_at(1001), "a");
    CHECK_STR(calls_at(1001), "");
    CHECK_STR(calls_at(1002), "a");
}

PERIODIC_TEST(periodics_are_called_by_priority_and_then_by_time)
{
    static struct gs_periodic c;
    gs_periodic_init(&c, loop, on_time);
    c.watcher.data = "c";
    gs_watcher_set_priority(&c.watcher, 1);
    CHECK_EQ(gs_periodic_start(&a, 1200), 0);
    CHECK_EQ(gs_periodic_start(&b, 1100), 0);
    CHECK_EQ(gs_periodic_start(&c, 1300), 0);
    CHECK_STR(calls_at(1400), "cba");
}

PERIODIC_TEST(moved_periodic_is_not_called_for_its_former_time)
{
    CHECK_EQ(gs_periodic_start(&a, 1200), 0);
    CHECK_EQ(gs_periodic_start(&a, 1300), 0);
    CHECK_STR(calls_at(1250), "");
    wall_ns = 1300;
    gs_watcher_feed(&a.watcher, 0);
    CHECK_EQ(gs_periodic_start_repeat(&a, 0, 1000), 0);
    CHECK_STR(calls_at(1999), "");
    CHECK_STR(calls_at(2000), "a");
    CHECK(gs_watcher_is_active(&a.watcher));
}

static void stop_both(struct gs_periodic *periodic)
{
    log_call(&periodic->watcher);
    gs_periodic_stop(&a);
    gs_periodic_stop(&b);
}

PERIODIC_TEST(periodic_stopped_before_its_call_is_not_called)
{
    a.callback = b.callback = stop_both;
    CHECK_EQ(gs_periodic_start_repeat(&a, 0, 100), 0);
    CHECK_EQ(gs_periodic_start(&b, 1200), 0);
    CHECK_STR(calls_at(1200), "a");
    CHECK_STR(calls_at(1300), "");
    CHECK_EQ(gs_periodic_start(&b, 1320), 0);
    CHECK_EQ(gs_periodic_start_repeat(&a, 30, 100), 0);
    CHECK_STR(calls_at(1430), "b");
    gs_periodic_stop(&a);
    CHECK_EQ(gs_loop_run(loop), 0);
}

static void start_again(struct gs_periodic *periodic)
{
    log_call(&periodic->watcher);
    if (gs_periodic_start(periodic, wall_ns))
        abort();
}

PERIODIC_TEST(periodic_started_in_its_own_callback_fires_in_the_next_iteration)
{
    a.callback = start_again;
    CHECK_EQ(gs_periodic_start(&a, 1000), 0);
    CHECK_STR(calls_at(1000), "a");
    CHECK_STR(calls_at(1000), "a");
}

PERIODIC_TEST(many_periodics_fire_in_the_order_of_their_times)
{
    enum { N = 500 };
    static struct gs_periodic many[N];
    static unsigned fired_at[N];
    for (unsigned i = 0; i < N; i++) {
        gs_periodic_init(&many[i], loop, on_time);
        many[i].watcher.data = "";
        CHECK_EQ(gs_periodic_start(&many[i], 2000 + i * 7919 % N), 0);
    }
    for (unsigned now = 0; now < N; now++) {
        calls_at(2000 + now);
        for (unsigned i = 0; i < N; i++)
            if (!gs_watcher_is_active(&many[i].watcher) && !fired_at[i])
                fired_at[i] = 2000 + now;
    }
    for (unsigned i = 0; i < N; i++)
        CHECK_EQ(fired_at[i], 2000 + i * 7919 % N);
}

PERIODIC_TEST(wait_ends_when_the_real_clock_shows_the_time)
{
    gs_loop_set_wall_clock(loop, NULL, NULL);
    uint64_t at_ns = gs_clock_wall() + 3 * GS_MILLISECOND;
    CHECK_EQ(gs_periodic_start(&a, at_ns), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "a");
    CHECK(gs_clock_wall() >= at_ns);
}

/* The kernel makes this descriptor readable when the clock is set; the test replaces it. */
PERIODIC_TEST(clock_that_is_set_ends_a_wait)
{
    CHECK_EQ(gs_periodic_start(&a, 500 * GS_SECOND), 0);
    int set = eventfd(1, EFD_NONBLOCK);
    CHECK(dup2(set, loop->periodics.clock_jump.fd) >= 0);
    close(set);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 0);
    wall_ns = 500 * GS_SECOND;
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    CHECK_STR(calls, "a");
}

PERIODIC_TEST(periodic_that_cannot_detect_jumps_does_not_start)
{
    struct refused_call refused[] = {{SYS_timerfd_create, -EMFILE}, {SYS_timerfd_settime, -EINVAL}};
    int next_fd = dup(0);
    close(next_fd);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        gs_sys_set_fault(refuse_call, &refused[i]);
        CHECK_EQ(gs_periodic_start(&a, 1), refused[i].error);
        CHECK(!gs_watcher_is_active(&a.watcher));
        CHECK_EQ(step(loop), 0);
    }
    gs_sys_set_fault(NULL, NULL);
    int fd = dup(0);
    close(fd);
    CHECK_EQ(fd, next_fd);
    CHECK_EQ(gs_periodic_start(&a, 1), 0);
    CHECK_EQ(step(loop), 1);
}
