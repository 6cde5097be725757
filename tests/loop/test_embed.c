/* Embedded loops: each event of the inner loop ends the outer loop's wait. */
#include "tests/loop/embed_fixture.h"

static int pair[2];

#define PAIR_TEST(name_)                                                                           \
    FIXTURE_TEST(name_, set_up(); connect_pair(pair), tear_down(); close_pair(pair))

PAIR_TEST(descriptor_of_the_inner_loop_ends_the_outer_wait)
{
    static struct gs_io io;
    gs_io_init(&io, inner, on_io);
    io.watcher.data = "r";
    start_io(&io, pair[0], GS_READ);
    CHECK_EQ(step(outer), 0);
    for (int i = 0; i < 3; i++) {
        put_byte(pair[1]);
        CHECK_EQ(wait_once(), 1);
        CHECK_EQ(last_result, 1);
    }
    CHECK_STR(calls, "rrr");
    CHECK_EQ(results, 3);
    uint64_t deadline_ns = gs_clock_now() + 2 * GS_MILLISECOND;
    while (gs_clock_now() < deadline_ns)
        CHECK(gs_loop_run_once(outer, deadline_ns) >= 0);
    CHECK_STR(calls, "rrr");
    struct gs_loop_counts counts;
    gs_loop_counts(inner, &counts);
    CHECK(counts.iterations < 10);
}

PAIR_TEST(interest_that_changed_in_the_inner_loop_is_applied_before_the_outer_wait)
{
    static struct gs_io io;
    step(outer);
    put_byte(pair[1]);
    gs_io_init(&io, inner, on_io);
    io.watcher.data = "r";
    start_io(&io, pair[0], GS_READ);
    CHECK_EQ(wait_once(), 1);
    CHECK_STR(calls, "r");
}

static void on_op(struct gs_op *op, int64_t result)
{
    last_result = (int)result;
    log_call(&op->io.watcher);
}

PAIR_TEST(operation_of_the_inner_loop_ends_the_outer_wait)
{
    char byte;
    static struct gs_op op;
    gs_op_init(&op, inner, on_op);
    op.io.watcher.data = "o";
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(gs_op_recv(&op, pair[0], &byte, 1, 0), 0);
        step(outer);
        put_byte(pair[1]);
        while (gs_op_is_active(&op))
            CHECK(wait_once() >= 0);
    }
    CHECK_STR(calls, "ooo");
}

TEST(timer_of_the_inner_loop_ends_the_outer_wait)
{
    struct gs_timer timer, later;
    set_up();
    gs_timer_init(&timer, inner, on_timer);
    gs_timer_init(&later, outer, on_timer);
    timer.watcher.data = "i";
    later.watcher.data = "o";
    CHECK_EQ(gs_timer_start(&later, gs_clock_now() + 1000 * GS_SECOND), 0);
    CHECK_EQ(gs_timer_start(&timer, gs_clock_now() + GS_MILLISECOND), 0);
    while (!calls[0])
        CHECK(wait_once() >= 0);
    CHECK_STR(calls, "i");
    CHECK(!gs_watcher_is_active(&timer.watcher));
    tear_down();
}

TEST(idle_signal_and_fed_watchers_of_the_inner_loop_end_the_outer_wait)
{
    struct gs_idle idle;
    struct gs_signal signal;
    struct gs_timer timer;
    set_up();
    gs_idle_init(&idle, inner, on_idle);
    gs_signal_init(&signal, inner, on_signal);
    gs_timer_init(&timer, inner, on_timer);
    idle.watcher.data = "i";
    signal.watcher.data = "s";
    timer.watcher.data = "t";
    gs_idle_start(&idle);
    CHECK_EQ(wait_once(), 1);
    CHECK_EQ(gs_signal_start(&signal, SIGUSR1), 0);
    raise(SIGUSR1);
    CHECK_EQ(wait_once(), 1);
    CHECK_EQ(gs_timer_start(&timer, GS_NEVER), 0);
    gs_watcher_feed(&timer.watcher, 0);
    CHECK_EQ(wait_once(), 1);
    CHECK_STR(calls, "ist");
    tear_down();
}

static struct gs_async async;

static void *send_later(void *data)
{
    usleep(2000);
    gs_async_send(&async);
    return data;
}

TEST(async_of_the_inner_loop_ends_the_outer_wait)
{
    pthread_t thread;
    set_up();
    gs_async_init(&async, inner, on_async);
    async.watcher.data = "a";
    gs_async_start(&async);
    for (int i = 0; i < 5; i++) {
        clear_calls();
        CHECK_EQ(pthread_create(&thread, NULL, send_later, NULL), 0);
        while (!calls[0])
            CHECK(wait_once() >= 0);
        CHECK_STR(calls, "a");
        pthread_join(thread, NULL);
    }
    gs_async_send(&async);
    CHECK_EQ(wait_once(), 1);
    tear_down();
}

TEST(wake_of_the_inner_loop_ends_the_outer_wait)
{
    set_up();
    gs_loop_wake(inner);
    CHECK_EQ(wait_once(), 1);
    CHECK_EQ(last_result, 0);
    uint64_t deadline_ns = gs_clock_now() + 2 * GS_MILLISECOND;
    CHECK(gs_loop_run_once(outer, deadline_ns) >= 0);
    while (gs_clock_now() < deadline_ns)
        CHECK(gs_loop_run_once(outer, deadline_ns) >= 0);
    tear_down();
}

TEST(loops_may_be_embedded_in_each_other_in_several_layers)
{
    enum { DEPTH = 2 };
    struct gs_loop *loops[DEPTH];
    struct gs_embed embeds[DEPTH];
    struct gs_timer timer;
    struct gs_io io;
    set_up();
    connect_pair(pair);
    for (int i = 0; i < DEPTH; i++) {
        CHECK_EQ(gs_loop_new_with("epoll", &loops[i]), 0);
        gs_embed_init(&embeds[i], i ? loops[i - 1] : inner, loops[i], NULL);
        CHECK_EQ(gs_embed_start(&embeds[i]), 0);
    }
    gs_timer_init(&timer, loops[DEPTH - 1], on_timer);
    gs_io_init(&io, loops[DEPTH - 1], on_io);
    timer.watcher.data = "t";
    io.watcher.data = "r";
    start_io(&io, pair[0], GS_READ);
    step(outer);
    put_byte(pair[1]);
    while (!calls[0])
        CHECK(wait_once() >= 0);
    CHECK_EQ(gs_timer_start(&timer, gs_clock_now() + GS_MILLISECOND), 0);
    while (!calls[1])
        CHECK(wait_once() >= 0);
    CHECK_STR(calls, "rt");
    tear_down();
    for (int i = 0; i < DEPTH; i++)
        gs_loop_free(loops[i]);
    close_pair(pair);
}
