/* The order of the steps of an iteration; loop.h numbers the steps. */
#include "tests/loop/fixture.h"

static struct gs_loop *loop;
static struct gs_io io;
static struct gs_timer timer;
static struct gs_async async;
static struct gs_idle idle, other_idle;
static struct gs_prepare prepare, other_prepare;
static struct gs_check check, other_check;
static int pair[2];

static void set_up(void)
{
    loop = new_loop();
    connect_pair(pair);
    gs_io_init(&io, loop, log_io);
    io.watcher.data = "r";
    gs_timer_init(&timer, loop, log_timer);
    timer.watcher.data = "t";
    gs_async_init(&async, loop, log_async);
    async.watcher.data = "a";
    gs_idle_init(&idle, loop, log_idle);
    idle.watcher.data = "i";
    gs_idle_init(&other_idle, loop, log_idle);
    other_idle.watcher.data = "I";
    gs_prepare_init(&prepare, loop, log_prepare);
    prepare.watcher.data = "p";
    gs_prepare_init(&other_prepare, loop, log_prepare);
    other_prepare.watcher.data = "P";
    gs_check_init(&check, loop, log_check);
    check.watcher.data = "c";
    gs_check_init(&other_check, loop, log_check);
    other_check.watcher.data = "C";
}

static void tear_down(void)
{
    gs_loop_free(loop);
    close_pair(pair);
}

#define ORDER_TEST(name_) FIXTURE_TEST(name_, set_up(), tear_down())

ORDER_TEST(prepares_then_checks_then_descriptors_then_asyncs_then_timers)
{
    CHECK_EQ(gs_timer_start(&timer, 0), 0);
    gs_async_start(&async);
    gs_async_send(&async);
    put_byte(pair[1]);
    start_io(&io, pair[0], GS_READ);
    gs_check_start(&check);
    gs_check_start(&other_check);
    gs_idle_start(&idle);
    gs_prepare_start(&prepare);
    gs_prepare_start(&other_prepare);
    CHECK_EQ(step(loop), 7);
    CHECK_STR(calls, "pPcCrat");
}

ORDER_TEST(higher_priority_is_called_first)
{
    gs_watcher_set_priority(&timer.watcher, 2);
    gs_watcher_set_priority(&async.watcher, 1);
    gs_watcher_set_priority(&check.watcher, -1);
    gs_watcher_set_priority(&io.watcher, -2);
    gs_watcher_set_priority(&other_prepare.watcher, 1);
    CHECK_EQ(gs_timer_start(&timer, 0), 0);
    gs_async_start(&async);
    gs_async_send(&async);
    put_byte(pair[1]);
    start_io(&io, pair[0], GS_READ);
    gs_check_start(&check);
    gs_prepare_start(&prepare);
    gs_prepare_start(&other_prepare);
    CHECK_EQ(step(loop), 6);
    CHECK_STR(calls, "Pptacr");
}

ORDER_TEST(idle_watchers_are_called_when_nothing_else_is_pending_and_keep_the_loop_from_waiting)
{
    gs_idle_start(&idle);
    gs_idle_start(&other_idle);
    start_io(&io, pair[0], GS_READ);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 2);
    put_byte(pair[1]);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    take_byte(pair[0]);
    gs_idle_stop(&idle);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    CHECK_STR(calls, "iIrI");
}

ORDER_TEST(check_watchers_do_not_keep_idle_ones_from_being_called)
{
    gs_idle_start(&idle);
    gs_check_start(&check);
    CHECK_EQ(step(loop), 2);
    CHECK_STR(calls, "ci");
}

static void start_reading(struct gs_prepare *watcher)
{
    log_call(&watcher->watcher);
    if (!gs_watcher_is_active(&io.watcher))
        start_io(&io, pair[0], GS_READ);
}

ORDER_TEST(interest_of_a_prepare_callback_is_applied_before_the_wait)
{
    gs_prepare_init(&prepare, loop, start_reading);
    prepare.watcher.data = "p";
    put_byte(pair[1]);
    gs_prepare_start(&prepare);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 2);
    CHECK_STR(calls, "pr");
}

static void stop_both_and_start_check(struct gs_prepare *watcher)
{
    log_call(&watcher->watcher);
    gs_prepare_stop(&prepare);
    gs_prepare_stop(&other_prepare);
    gs_check_start(&check);
}

ORDER_TEST(prepare_stopped_by_another_is_not_called)
{
    gs_prepare_init(&prepare, loop, stop_both_and_start_check);
    prepare.watcher.data = "p";
    gs_prepare_start(&prepare);
    gs_prepare_start(&other_prepare);
    CHECK_EQ(step(loop), 2);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "pcc");
}

static void start_other(struct gs_prepare *watcher)
{
    log_call(&watcher->watcher);
    gs_prepare_start(&other_prepare);
}

ORDER_TEST(prepare_started_by_another_is_called_from_the_next_iteration_on)
{
    gs_prepare_init(&prepare, loop, start_other);
    prepare.watcher.data = "p";
    gs_prepare_start(&prepare);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 2);
    CHECK_STR(calls, "ppP");
}

static void feed_itself_and_timer(struct gs_io *watcher, unsigned events)
{
    (void)events;
    log_call(&watcher->watcher);
    gs_watcher_feed(&watcher->watcher, GS_READ);
    gs_watcher_feed(&timer.watcher, 0);
}

ORDER_TEST(what_is_fed_in_a_callback_is_called_in_the_next_iteration_which_does_not_wait)
{
    gs_io_init(&io, loop, feed_itself_and_timer);
    io.watcher.data = "r";
    gs_watcher_set_priority(&timer.watcher, 2);
    CHECK_EQ(gs_timer_start(&timer, GS_NEVER), 0);
    start_io(&io, pair[0], GS_READ);
    gs_watcher_feed(&io.watcher, GS_READ);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 2);
    CHECK_STR(calls, "rtr");
    CHECK(!gs_watcher_is_active(&timer.watcher));
}

ORDER_TEST(every_kind_of_watcher_can_be_fed_while_active)
{
    struct gs_watcher *all[] = {&io.watcher,   &timer.watcher,   &async.watcher,
                                &idle.watcher, &prepare.watcher, &check.watcher};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gs_watcher_feed(all[i], 0);
    CHECK_EQ(step(loop), 0);
    start_io(&io, pair[0], GS_READ);
    CHECK_EQ(gs_timer_start(&timer, GS_NEVER), 0);
    gs_async_start(&async);
    gs_idle_start(&idle);
    gs_prepare_start(&prepare);
    gs_check_start(&check);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gs_watcher_feed(all[i], 0);
    CHECK_EQ(step(loop), 7);
    CHECK_STR(calls, "prtipca");
}

static void run_nested(struct gs_timer *watcher)
{
    log_call(&watcher->watcher);
    if (gs_loop_run_once(loop, 0) < 0)
        abort();
    strcat(calls, ".");
}

ORDER_TEST(nested_iteration_calls_the_rest_of_the_outer_one_first)
{
    static struct gs_timer second;
    gs_timer_init(&second, loop, log_timer);
    second.watcher.data = "s";
    gs_timer_init(&timer, loop, run_nested);
    timer.watcher.data = "t";
    gs_prepare_start(&prepare);
    CHECK_EQ(gs_timer_start(&timer, 1), 0);
    CHECK_EQ(gs_timer_start(&second, 2), 0);
    CHECK_EQ(gs_loop_run_once(loop, 0), 4);
    CHECK_STR(calls, "ptps.");
}
