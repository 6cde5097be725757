/* Thousands of timers: more than the heap holds, and more than an iteration collects. */
#include "tests/loop/fixture.h"

#define MANY 10000

static struct gs_loop *loop;
static struct gs_timer many[MANY];
static uint64_t clock_ns;
static uint64_t last_ns, seed;
static int fired, mistakes;

static uint64_t read_clock(void *data)
{
    (void)data;
    return clock_ns;
}

static uint64_t random_below(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (seed >> 32) * n >> 32;
}

static void expect_order(struct gs_timer *timer)
{
    fired++;
    mistakes += timer->deadline_ns < last_ns || timer->deadline_ns > clock_ns;
    last_ns = timer->deadline_ns;
}

static void set_up(void)
{
    loop = new_loop();
    clock_ns = 1000;
    gs_loop_set_clock(loop, read_clock, NULL);
    last_ns = 0;
    seed = 1;
    fired = mistakes = 0;
    for (int i = 0; i < MANY; i++) {
        gs_timer_init(&many[i], loop, expect_order);
        CHECK_EQ(gs_timer_start(&many[i], 2000 + random_below(1 << 24)), 0);
    }
    gs_loop_check(loop);
}

/* Run iterations at the same time until no timer is due. */
static void run_at(uint64_t now_ns)
{
    clock_ns = now_ns;
    while (gs_loop_run_once(loop, 0) || gs_loop_next_timer(loop) <= now_ns)
        ;
    gs_loop_check(loop);
}

#define TIMER_TEST(name_) FIXTURE_TEST(name_, set_up(), gs_loop_free(loop))

TIMER_TEST(ten_thousand_timers_fire_each_at_its_deadline)
{
    while (fired < MANY) {
        clock_ns = gs_loop_next_timer(loop);
        CHECK(gs_loop_run_once(loop, 0) > 0);
        CHECK_EQ(last_ns, clock_ns);
    }
    CHECK_EQ(gs_loop_next_timer(loop), GS_NEVER);
    CHECK_EQ(mistakes, 0);
}

TIMER_TEST(ten_thousand_timers_that_are_due_at_once_fire_in_order_of_their_deadlines)
{
    run_at(1 << 25);
    CHECK_EQ(fired, MANY);
    CHECK_EQ(mistakes, 0);
}

static int read_when;

static void on_readable(struct gs_io *io, unsigned events)
{
    (void)events;
    take_byte(io->fd);
    read_when = fired;
}

TEST(descriptors_are_polled_between_thousands_of_timers)
{
    set_up();
    int pair[2];
    struct gs_io io;
    connect_pair(pair);
    gs_io_init(&io, loop, on_readable);
    start_io(&io, pair[0], GS_READ);
    put_byte(pair[1]);
    clock_ns = 1 << 25;
    CHECK(gs_loop_run_once(loop, 0) > 1);
    CHECK_EQ(read_when, 0);
    CHECK(fired > 0 && fired < MANY);
    /* The same check while most of the timers are still due. */
    put_byte(pair[1]);
    int before = fired;
    CHECK(gs_loop_run_once(loop, 0) > 1);
    CHECK_EQ(read_when, before);
    /* An iteration must not wait while timers are due. */
    CHECK(gs_loop_run_once(loop, GS_NEVER) > 0);
    gs_loop_free(loop);
    close_pair(pair);
}

TIMER_TEST(ten_thousand_timers_that_are_moved_later_or_earlier_fire_at_their_last_deadlines)
{
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < MANY; i++)
            if (gs_watcher_is_active(&many[i].watcher))
                CHECK_EQ(gs_timer_start(&many[i], clock_ns + random_below(1 << 24)), 0);
        gs_loop_check(loop);
        last_ns = 0;
        run_at(clock_ns + (1 << 20));
    }
    CHECK_EQ(mistakes, 0);
    CHECK(fired > 0 && fired < MANY);
    last_ns = 0;
    run_at(1 << 30);
    CHECK_EQ(fired, MANY);
    CHECK_EQ(mistakes, 0);
}

TIMER_TEST(ten_thousand_timers_are_stopped_and_started_in_any_order)
{
    int active = MANY;
    for (int i = 0; i < 10 * MANY; i++) {
        struct gs_timer *timer = &many[random_below(MANY)];
        bool is_active = gs_watcher_is_active(&timer->watcher);
        active += is_active ? -1 : 1;
        if (is_active)
            gs_timer_stop(timer);
        else
            CHECK_EQ(gs_timer_start(timer, 2000 + random_below(UINT64_C(1) << (i % 64))), 0);
    }
    gs_loop_check(loop);
    run_at(UINT64_MAX - 1);
    CHECK_EQ(fired, active);
    CHECK_EQ(mistakes, 0);
}

TIMER_TEST(timers_with_the_same_deadline_fire_together_however_many)
{
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(gs_timer_start(&many[i], 5000), 0);
    gs_loop_check(loop);
    run_at(4999);
    CHECK_EQ(fired, 0);
    CHECK(gs_loop_next_timer(loop) <= 5000);
    run_at(5000);
    CHECK_EQ(fired, MANY);
}

TIMER_TEST(timers_that_never_fire_do_not_hide_those_that_do)
{
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(gs_timer_start(&many[i], GS_NEVER), 0);
    for (uint64_t deadline_ns = 7000; deadline_ns < 10000; deadline_ns += 1000) {
        CHECK_EQ(gs_timer_start(&many[0], deadline_ns), 0);
        CHECK(gs_loop_next_timer(loop) <= deadline_ns);
        run_at(deadline_ns - 1);
        CHECK_EQ(fired, 0);
        run_at(deadline_ns);
        CHECK_EQ(fired, 1);
        CHECK(gs_loop_next_timer(loop) > deadline_ns);
        fired = 0;
    }
    CHECK_EQ(mistakes, 0);
}
