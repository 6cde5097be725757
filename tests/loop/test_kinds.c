/* Feeding, stopping the run, and the walk, for every kind of watcher. */
#include "tests/loop/kinds_fixture.h"

/* ---- Feeding ---- */

TEST(each_kind_can_be_fed)
{
    struct gs_watcher *watchers[] = {&all.io.watcher,    &all.timer.watcher,  &all.periodic.watcher,
                                     &all.child.watcher, &all.signal.watcher, &all.file.watcher,
                                     &all.async.watcher, &all.fork.watcher,   &all.cleanup.watcher};
    set_up();
    stop_those_of_each_iteration();
    for (size_t i = 0; i < sizeof watchers / sizeof *watchers; i++) {
        clear_calls();
        gs_watcher_feed(watchers[i], GS_READ);
        gs_watcher_feed(watchers[i], GS_READ);
        CHECK_EQ(step(loop), 1);
        CHECK_STR(calls, watchers[i]->data);
        CHECK_EQ(step(loop), 0);
        bool is_finished =
            watchers[i] == &all.timer.watcher || watchers[i] == &all.periodic.watcher;
        CHECK_EQ(gs_watcher_is_active(watchers[i]), !is_finished);
    }
    struct gs_watcher *points[] = {&all.idle.watcher, &all.prepare.watcher, &all.check.watcher};
    gs_idle_start(&all.idle);
    gs_prepare_start(&all.prepare);
    gs_check_start(&all.check);
    clear_calls();
    for (size_t i = 0; i < 3; i++)
        gs_watcher_feed(points[i], 0);
    CHECK_EQ(step(loop), 4);
    CHECK_STR(calls, "pipk");
    tear_down();
}

TEST(what_was_fed_and_stopped_is_not_called)
{
    struct gs_watcher *watchers[] = {
        &all.io.watcher,      &all.timer.watcher, &all.periodic.watcher, &all.child.watcher,
        &all.signal.watcher,  &all.file.watcher,  &all.async.watcher,    &all.fork.watcher,
        &all.cleanup.watcher, &all.idle.watcher,  &all.prepare.watcher,  &all.check.watcher};
    set_up();
    for (size_t i = 0; i < sizeof watchers / sizeof *watchers; i++) {
        gs_watcher_feed(watchers[i], GS_READ);
        gs_loop_stop_watcher(watchers[i]);
        gs_watcher_feed(watchers[i], GS_READ);
        CHECK(!gs_watcher_is_active(watchers[i]));
    }
    CHECK_EQ(step(loop), 0);
    CHECK_STR(calls, "");
    tear_down();
}

/* ---- Stopping the run ---- */

TEST(run_may_be_stopped_in_a_callback_of_any_kind)
{
    struct gs_watcher *stoppers[] = {
        &all.io.watcher,     &all.timer.watcher,   &all.periodic.watcher, &all.child.watcher,
        &all.signal.watcher, &all.file.watcher,    &all.async.watcher,    &all.fork.watcher,
        &all.idle.watcher,   &all.prepare.watcher, &all.check.watcher,    &all.cleanup.watcher,
    };
    set_up();
    for (size_t i = 0; i < sizeof stoppers / sizeof *stoppers; i++) {
        stopper = stoppers[i];
        clear_calls();
        if (stopper != &all.idle.watcher)
            gs_watcher_feed(stoppers[i], GS_READ);
        CHECK_EQ(gs_loop_run(loop), 0);
        CHECK(strchr(calls, *(const char *)stopper->data));
    }
    stopper = &all.op.io.watcher;
    clear_calls();
    put_byte(all.other[1]);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK(strchr(calls, 'o'));
    stopper = NULL;
    tear_down();
}

/* ---- The walk ---- */

/* Those that the fixture does not have. */
enum { MISSING = GS_WATCHER_EMBED | GS_WATCHER_WORK };

static unsigned visited_kinds;

static void visit(struct gs_watcher *watcher, void *data)
{
    visited_kinds |= (unsigned)gs_watcher_kind(watcher);
    ++*(int *)data;
}

TEST(walk_visits_each_active_watcher_of_the_kinds_once)
{
    int visits = 0;
    set_up();
    visited_kinds = 0;
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHERS_ALL, visit, &visits), 13);
    CHECK_EQ(visits, 13);
    CHECK_EQ(visited_kinds, GS_WATCHERS_ALL & ~(unsigned)MISSING);
    for (unsigned kind = 1; kind < GS_WATCHERS_ALL; kind *= 2) {
        visited_kinds = 0;
        CHECK_EQ(gs_loop_walk(loop, kind, visit, &visits), !(kind & MISSING));
        CHECK_EQ(visited_kinds, kind & ~(unsigned)MISSING);
    }
    CHECK_EQ(gs_loop_walk(loop, 0, visit, &visits), 0);
    tear_down();
}

static void on_timer_walk(struct gs_timer *timer)
{
    int visits = 0;
    log_call(&timer->watcher);
    if (gs_loop_walk(timer->watcher.loop, GS_WATCHER_TIMER | GS_WATCHER_OP, visit, &visits) != 2)
        abort();
}

TEST(walk_visits_what_is_pending_and_due_as_well)
{
    struct gs_timer first, second;
    int visits = 0;
    set_up();
    stop_those_of_each_iteration();
    gs_timer_init(&first, loop, on_timer_walk);
    gs_timer_init(&second, loop, on_timer);
    first.watcher.data = second.watcher.data = "";
    CHECK_EQ(gs_timer_start(&first, 1), 0);
    CHECK_EQ(gs_timer_start(&second, 2), 0);
    gs_op_cancel(&all.op);
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHER_OP, visit, &visits), 1);
    CHECK(step(loop) >= 2);
    tear_down();
}

static void stop_visited(struct gs_watcher *watcher, void *data)
{
    (void)data;
    gs_loop_stop_watcher(watcher);
}

static void stop_others(struct gs_watcher *watcher, void *data)
{
    (void)watcher, (void)data;
    gs_timer_stop(&all.timer);
    gs_signal_stop(&all.signal);
}

TEST(walk_may_stop_what_it_visits_and_others)
{
    enum { N = 100 };
    static struct gs_timer timers[N];
    set_up();
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHER_TIMER | GS_WATCHER_SIGNAL, stop_others, NULL), 1);
    for (int i = 0; i < N; i++) {
        gs_timer_init(&timers[i], loop, on_timer);
        CHECK_EQ(gs_timer_start(&timers[i], 1000 + (uint64_t)(i * 37 % N)), 0);
    }
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHER_TIMER, stop_visited, NULL), N);
    gs_loop_check(loop);
    CHECK_EQ(gs_loop_walk(loop, GS_WATCHERS_ALL & ~(unsigned)GS_WATCHER_OP, stop_visited, NULL),
             10);
    gs_loop_check(loop);
    tear_down();
}
