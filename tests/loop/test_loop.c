#include "tests/loop/fixture.h"

static struct gs_loop *loop;

#define LOOP_TEST(name_) FIXTURE_TEST(name_, loop = new_loop(), gs_loop_free(loop))

TEST(epoll_is_the_poller_by_default_and_by_name)
{
    unsetenv("GS_POLLER");
    loop = new_loop();
    CHECK_STR(gs_loop_poller(loop), "epoll");
    gs_loop_free(loop);
    setenv("GS_POLLER", "epoll", 1);
    loop = new_loop();
    CHECK_STR(gs_loop_poller(loop), "epoll");
    gs_loop_free(loop);
    unsetenv("GS_POLLER");
}

TEST(poller_that_does_not_exist_is_refused)
{
    struct gs_loop *untouched = (struct gs_loop *)&loop;
    setenv("GS_POLLER", "kqueue", 1);
    CHECK_EQ(gs_loop_new(&untouched), -EINVAL);
    CHECK(untouched == (struct gs_loop *)&loop);
    unsetenv("GS_POLLER");
}

TEST(no_loop_is_freed_as_well)
{
    gs_loop_free(NULL);
}

TEST(watchers_fit_a_cache_line)
{
    CHECK(sizeof(struct gs_io) <= 64);
    CHECK(sizeof(struct gs_timer) <= 64);
    CHECK(sizeof(struct gs_signal) <= 64);
    CHECK(sizeof(struct gs_async) <= 64);
    CHECK(sizeof(struct gs_idle) <= 64);
    CHECK(sizeof(struct gs_prepare) <= 64);
    CHECK(sizeof(struct gs_check) <= 64);
    CHECK(sizeof(struct slot) <= 16);
}

static void on_op(struct gs_op *op, int64_t result)
{
    (void)result;
    log_call(&op->io.watcher);
}

TEST(free_stops_all_that_is_active_without_a_call)
{
    int pair[2];
    char byte;
    struct gs_io io, fed_io;
    struct gs_timer timer, due;
    struct gs_signal signal;
    struct gs_async async, sent;
    struct gs_idle idle;
    struct gs_prepare prepare;
    struct gs_check check;
    struct gs_op op;
    loop = new_loop();
    connect_pair(pair);
    gs_io_init(&io, loop, log_io);
    start_io(&io, pair[0], GS_READ);
    gs_io_init(&fed_io, loop, log_io);
    start_io(&fed_io, pair[0], GS_READ);
    gs_watcher_feed(&fed_io.watcher, GS_READ);
    gs_timer_init(&timer, loop, log_timer);
    CHECK_EQ(gs_timer_start(&timer, 7), 0);
    gs_timer_init(&due, loop, log_timer);
    CHECK_EQ(gs_timer_start(&due, 5), 0);
    gs_loop_collect_timers(loop);
    gs_signal_init(&signal, loop, log_signal);
    CHECK_EQ(gs_signal_start(&signal, SIGUSR1), 0);
    gs_async_init(&async, loop, log_async);
    gs_async_start(&async);
    gs_async_init(&sent, loop, log_async);
    gs_async_start(&sent);
    gs_async_send(&sent);
    gs_idle_init(&idle, loop, log_idle);
    gs_idle_start(&idle);
    gs_prepare_init(&prepare, loop, log_prepare);
    gs_prepare_start(&prepare);
    gs_check_init(&check, loop, log_check);
    gs_check_start(&check);
    gs_op_init(&op, loop, on_op);
    CHECK_EQ(gs_op_recv(&op, pair[1], &byte, 1, 0), 0);
    gs_loop_check(loop);
    gs_loop_free(loop);
    const struct gs_watcher *all[] = {&io.watcher,    &fed_io.watcher, &timer.watcher,
                                      &due.watcher,   &signal.watcher, &async.watcher,
                                      &sent.watcher,  &idle.watcher,   &prepare.watcher,
                                      &check.watcher, &op.io.watcher};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(!gs_watcher_is_active(all[i]));
    CHECK_STR(calls, "");
    close_pair(pair);
}

LOOP_TEST(run_returns_when_nothing_is_left_to_wait_for)
{
    static struct gs_timer timer;
    CHECK_EQ(gs_loop_run(loop), 0);
    gs_timer_init(&timer, loop, log_timer);
    timer.watcher.data = "t";
    CHECK_EQ(gs_timer_start(&timer, 1), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "t");
}

LOOP_TEST(unreferenced_watcher_does_not_keep_the_loop)
{
    static struct gs_timer timer, endless;
    gs_timer_init(&timer, loop, log_timer);
    gs_timer_init(&endless, loop, log_timer);
    timer.watcher.data = "t";
    CHECK_EQ(gs_timer_start(&endless, GS_NEVER), 0);
    gs_watcher_unref(&endless.watcher);
    gs_watcher_unref(&endless.watcher);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(gs_timer_start(&timer, 1), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "t");
    gs_timer_stop(&endless);
    gs_loop_check(loop);
    CHECK_EQ(gs_timer_start(&endless, gs_clock_now() + GS_MILLISECOND), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "t");
    gs_watcher_ref(&endless.watcher);
    gs_loop_check(loop);
    endless.watcher.data = "e";
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "te");
}

static void stop_loop(struct gs_timer *timer)
{
    log_call(&timer->watcher);
    gs_loop_stop(timer->watcher.loop);
}

LOOP_TEST(stop_ends_the_run_after_what_is_pending)
{
    static struct gs_timer first, second, third;
    gs_timer_init(&first, loop, stop_loop);
    gs_timer_init(&second, loop, log_timer);
    gs_timer_init(&third, loop, log_timer);
    first.watcher.data = "1";
    second.watcher.data = "2";
    third.watcher.data = "3";
    CHECK_EQ(gs_timer_start(&first, 1), 0);
    CHECK_EQ(gs_timer_start(&second, 2), 0);
    CHECK_EQ(gs_timer_start(&third, GS_NEVER), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "12");
    CHECK_EQ(gs_timer_start(&third, 1), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "123");
}

static void stop_loop_in_prepare(struct gs_prepare *prepare)
{
    gs_loop_stop(prepare->watcher.loop);
}

LOOP_TEST(stop_before_the_wait_keeps_the_loop_from_waiting)
{
    static struct gs_prepare prepare;
    gs_prepare_init(&prepare, loop, stop_loop_in_prepare);
    gs_prepare_start(&prepare);
    CHECK_EQ(gs_loop_run(loop), 0);
}

LOOP_TEST(stop_outside_of_a_run_does_nothing)
{
    static struct gs_timer timer;
    gs_timer_init(&timer, loop, log_timer);
    timer.watcher.data = "t";
    CHECK_EQ(gs_timer_start(&timer, 1), 0);
    gs_loop_stop(loop);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "t");
}

static struct gs_timer inner, last;

/* The last timer is due only now: the inner run would call it as well. */
static void run_until_inner_stops(struct gs_timer *timer)
{
    log_call(&timer->watcher);
    (void)gs_timer_start(&inner, 1);
    if (gs_loop_run(timer->watcher.loop))
        abort();
    strcat(calls, ")");
    (void)gs_timer_start(&last, 1);
}

LOOP_TEST(stop_ends_the_innermost_run_only)
{
    static struct gs_timer outer;
    gs_timer_init(&outer, loop, run_until_inner_stops);
    gs_timer_init(&inner, loop, stop_loop);
    gs_timer_init(&last, loop, log_timer);
    outer.watcher.data = "(";
    inner.watcher.data = "i";
    last.watcher.data = "l";
    CHECK_EQ(gs_timer_start(&outer, 1), 0);
    CHECK_EQ(gs_timer_start(&last, GS_NEVER), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_STR(calls, "(i)l");
}

LOOP_TEST(run_once_waits_until_the_deadline_at_most)
{
    uint64_t start_ns = gs_clock_now();
    CHECK_EQ(gs_loop_run_once(loop, start_ns + 3 * GS_MILLISECOND), 0);
    CHECK(gs_clock_now() >= start_ns + 3 * GS_MILLISECOND);
    CHECK_EQ(gs_loop_run_once(loop, start_ns), 0);
    CHECK_EQ(gs_loop_run_once(loop, 0), 0);
}

LOOP_TEST(wake_ends_the_next_wait_and_no_other)
{
    gs_loop_wake(loop);
    gs_loop_wake(loop);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 0);
    uint64_t start_ns = gs_clock_now();
    CHECK_EQ(gs_loop_run_once(loop, start_ns + 2 * GS_MILLISECOND), 0);
    CHECK(gs_clock_now() >= start_ns + 2 * GS_MILLISECOND);
}

LOOP_TEST(counts_have_iterations_and_callbacks)
{
    struct gs_loop_counts counts;
    static struct gs_timer timer;
    gs_timer_init(&timer, loop, log_timer);
    timer.watcher.data = "";
    CHECK_EQ(gs_timer_start_repeat(&timer, 1, 1), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    gs_loop_counts(loop, &counts);
    CHECK_EQ(counts.iterations, 5);
    CHECK_EQ(counts.callbacks, 5);
    CHECK_EQ(counts.interest_calls, 0);
}

/* Runs in the child process; the exit status is the number of the failed check. */
static int child_of_fork(struct gs_io *io, struct gs_async *async, const int pair[2])
{
    if (gs_loop_after_fork(loop))
        return 1;
    put_byte(pair[1]);
    if (gs_loop_run_once(loop, GS_NEVER) != 1 || strcmp(calls, "r"))
        return 2;
    take_byte(pair[0]);
    gs_async_send(async);
    if (gs_loop_run_once(loop, GS_NEVER) != 1 || strcmp(calls, "ra"))
        return 3;
    gs_io_stop(io);
    gs_loop_fd_closed(loop, io->fd);
    gs_loop_free(loop);
    return 0;
}

TEST(child_process_has_a_loop_of_its_own_after_fork)
{
    struct gs_io io, file_io;
    struct gs_async async;
    int pair[2], status;
    FILE *file = tmpfile();
    loop = new_loop();
    connect_pair(pair);
    gs_io_init(&io, loop, log_io);
    io.watcher.data = "r";
    start_io(&io, pair[0], GS_READ);
    gs_io_init(&file_io, loop, log_io);
    file_io.watcher.data = "f";
    start_io(&file_io, fileno(file), GS_READ);
    gs_async_init(&async, loop, log_async);
    async.watcher.data = "a";
    gs_async_start(&async);
    CHECK_EQ(step(loop), 1);
    gs_io_stop(&file_io);
    clear_calls();
    pid_t child = fork();
    if (!child)
        _exit(child_of_fork(&io, &async, pair));
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    /* What the child does with its loop must not affect the parent. */
    put_byte(pair[1]);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    gs_async_send(&async);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 2);
    CHECK_STR(calls, "rra");
    gs_loop_free(loop);
    fclose(file);
    close_pair(pair);
}
