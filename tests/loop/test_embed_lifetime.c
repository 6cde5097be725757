/* The lifetime of an embedding: start and stop, failures, and an inner loop that reopens its
 * poller. */
#include "tests/loop/embed_fixture.h"
#include "tests/newer_call.h"

TEST(embedding_keeps_the_outer_loop_unless_unreferenced_or_stopped)
{
    struct gs_timer timer;
    set_up();
    gs_watcher_unref(&embed.watcher);
    CHECK_EQ(gs_loop_run(outer), 0);
    gs_watcher_ref(&embed.watcher);
    start_in_inner(&timer, on_timer, "t");
    CHECK_EQ(wait_once(), 1);
    gs_embed_stop(&embed);
    gs_embed_stop(&embed);
    CHECK(!gs_watcher_is_active(&embed.watcher));
    CHECK_EQ(gs_timer_start(&timer, 1), 0);
    CHECK_EQ(gs_loop_run(outer), 0);
    CHECK_STR(calls, "t");
    CHECK_EQ(gs_embed_start(&embed), 0);
    CHECK_EQ(wait_once(), 1);
    CHECK_STR(calls, "tt");
    tear_down();
}

TEST(loop_is_embedded_once)
{
    struct gs_embed again;
    set_up();
    gs_embed_init(&again, outer, inner, NULL);
    CHECK_EQ(gs_embed_start(&again), -EBUSY);
    CHECK(!gs_watcher_is_active(&again.watcher));
    gs_embed_stop(&embed);
    CHECK_EQ(gs_embed_start(&again), 0);
    gs_watcher_feed(&again.watcher, 0);
    CHECK_EQ(wait_once(), 1);
    tear_down();
}

static void stop_embed(struct gs_timer *timer)
{
    log_call(&timer->watcher);
    gs_embed_stop(&embed);
}

TEST(embedding_may_be_stopped_by_what_it_calls)
{
    struct gs_timer timer;
    set_up();
    start_in_inner(&timer, stop_embed, "s");
    CHECK_EQ(gs_loop_run(outer), 0);
    CHECK_STR(calls, "s");
    tear_down();
}

static void stop_outer(struct gs_timer *timer)
{
    log_call(&timer->watcher);
    gs_loop_stop(outer);
}

TEST(outer_run_may_be_stopped_by_what_the_inner_loop_calls)
{
    struct gs_timer timer;
    set_up();
    start_in_inner(&timer, stop_outer, "s");
    CHECK_EQ(gs_loop_run(outer), 0);
    CHECK_STR(calls, "s");
    CHECK(gs_watcher_is_active(&embed.watcher));
    tear_down();
}

TEST(reopened_poller_of_the_inner_loop_is_watched)
{
    int pair[2], other[2];
    struct gs_io io, gone;
    set_up();
    connect_pair(pair);
    connect_pair(other);
    gs_io_init(&io, inner, on_io);
    gs_io_init(&gone, inner, on_io);
    io.watcher.data = "r";
    start_io(&io, pair[0], GS_READ);
    step(outer);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(gs_loop_after_fork(inner), 0);
        if (i % 2)
            CHECK_EQ(gs_loop_after_fork(inner), 0);
        put_byte(pair[1]);
        while (strlen(calls) <= (size_t)i)
            CHECK(wait_once() >= 0);
    }
    CHECK_STR(calls, "rrrrr");
    /* A duplicate has a registration that cannot be removed, so the loop reopens its poller. */
    start_io(&gone, other[0], GS_READ);
    step(outer);
    gs_io_stop(&gone);
    int duplicate = dup(other[0]);
    close(other[0]);
    put_byte(other[1]);
    for (int i = 0; i < 5; i++)
        step(outer);
    put_byte(pair[1]);
    while (strlen(calls) < 6)
        CHECK(wait_once() >= 0);
    CHECK_STR(calls, "rrrrrr");
    tear_down();
    close(duplicate);
    close(other[1]);
    close_pair(pair);
}

static bool is_failing;

/* The outer loop's wait succeeds, and the inner loop's wait fails. */
static long fail_wait(long number, void *data)
{
    int *passing = data;
    return is_failing && stands_for(number, SYS_epoll_pwait2) && !(*passing)-- ? -EBADF : 0;
}

TEST(inner_loop_that_fails_permanently_is_no_longer_embedded)
{
    struct gs_timer timer;
    set_up_inner_on("epoll");
    int passing = !strcmp(gs_loop_poller(outer), "epoll");
    start_in_inner(&timer, on_timer, "t");
    is_failing = true;
    gs_sys_set_fault(fail_wait, &passing);
    CHECK_EQ(gs_loop_run(outer), 0);
    gs_sys_set_fault(NULL, NULL);
    is_failing = false;
    CHECK_EQ(last_result, -EBADF);
    CHECK_STR(calls, "");
    CHECK(!gs_watcher_is_active(&embed.watcher));
    tear_down();
}

/* Runs in the child process; the exit status is the number of the failed check. */
static int child_of_fork(const int pair[2])
{
    if (gs_loop_after_fork(inner) || gs_loop_after_fork(outer))
        return 1;
    put_byte(pair[1]);
    while (!calls[0])
        if (wait_once() < 0)
            return 2;
    gs_loop_free(outer);
    gs_loop_free(inner);
    return strcmp(calls, "r") ? 3 : 0;
}

TEST(embedded_loop_works_in_a_child_process)
{
    int pair[2], status;
    struct gs_io io;
    set_up();
    connect_pair(pair);
    gs_io_init(&io, inner, on_io);
    io.watcher.data = "r";
    start_io(&io, pair[0], GS_READ);
    step(outer);
    pid_t child = fork();
    if (!child)
        _exit(child_of_fork(pair));
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    put_byte(pair[1]);
    CHECK_EQ(wait_once(), 1);
    CHECK_STR(calls, "r");
    tear_down();
    close_pair(pair);
}

TEST(outer_loop_that_is_freed_leaves_the_inner_one)
{
    struct gs_timer timer;
    set_up();
    start_in_inner(&timer, on_timer, "t");
    gs_loop_free(outer);
    CHECK(!gs_watcher_is_active(&embed.watcher));
    CHECK_EQ(gs_loop_run(inner), 0);
    CHECK_STR(calls, "t");
    gs_loop_free(inner);
}

TEST(pollers_may_differ_and_those_without_a_descriptor_cannot_be_embedded)
{
    const char *names[] = {"epoll", "io_uring", "poll", "select"};
    struct gs_timer timer;
    struct gs_io io;
    int pair[2];
    connect_pair(pair);
    for (int i = 0; i < 16; i++) {
        if (gs_loop_new_with(names[i / 4], &outer))
            abort();
        if (gs_loop_new_with(names[i % 4], &inner))
            abort();
        clear_calls();
        gs_embed_init(&embed, outer, inner, NULL);
        int err = gs_embed_start(&embed);
        CHECK_EQ(err, inner->poller->descriptor ? 0 : -EOPNOTSUPP);
        CHECK_EQ(gs_watcher_is_active(&embed.watcher), !err);
        gs_timer_init(&timer, inner, on_timer);
        gs_io_init(&io, inner, on_io);
        timer.watcher.data = "t";
        io.watcher.data = "r";
        CHECK_EQ(gs_timer_start(&timer, 1), 0);
        if (!err)
            CHECK_EQ(wait_once(), 1);
        start_io(&io, pair[0], GS_READ);
        step(outer);
        put_byte(pair[1]);
        if (!err)
            CHECK_EQ(wait_once(), 1);
        else
            take_byte(pair[0]);
        CHECK_STR(calls, err ? "" : "tr");
        tear_down();
    }
    close_pair(pair);
}
