/* Descriptors that are closed while a loop watches them. */
#include "tests/thread/checked/misuse.h"

#include <gossamer/loop.h>

static struct gs_loop *loop;
static struct gs_io first, second;
static int fds[2], called;

static void on_io(struct gs_io *unused, unsigned events)
{
    (void)unused, (void)events;
    called++;
}

static void watch(struct gs_io *io, int fd)
{
    gs_io_init(io, loop, on_io);
    gs_io_set(io, fd, GS_READ);
    MUST_EQ(gs_io_start(io), 0);
}

static void run(void)
{
    MUST(gs_loop_run_once(loop, 0) >= 0);
}

/* The loop watches fds[0]. */
static void begin(void)
{
    MUST_EQ(gs_loop_new(&loop), 0);
    MUST_EQ(pipe(fds), 0);
    watch(&first, fds[0]);
    run();
}

static void close_fds(void)
{
    close(fds[0]);
    close(fds[1]);
}

/* A new pipe gets the same numbers. */
static void reuse_numbers(void)
{
    int old = fds[0];
    close_fds();
    MUST_EQ(pipe(fds), 0);
    MUST_EQ(fds[0], old);
}

static void watch_reused_number(void)
{
    report_to_stderr();
    begin();
    reuse_numbers();
    watch(&second, fds[0]);
    run();
}

static void change_after_reuse(void)
{
    report_to_stderr();
    begin();
    reuse_numbers();
    gs_io_set_events(&first, GS_READ | GS_WRITE);
    run();
}

static void change_after_close(void)
{
    report_to_stderr();
    begin();
    close_fds();
    gs_io_set_events(&first, GS_READ | GS_WRITE);
    run();
}

static void restart_without_set(void)
{
    report_to_stderr();
    begin();
    gs_io_stop(&first);
    reuse_numbers();
    MUST_EQ(gs_io_start(&first), 0);
    watch(&second, fds[0]);
    run();
}

#define WAS_CLOSED "descriptor [0-9]+ of watcher 0x[0-9a-f]+ was closed without gs_loop_fd_closed"

TEST(a_number_that_comes_back_while_it_is_watched_is_noticed)
{
    CHECK_STOPPED(watch_reused_number, "gs_loop_run_once", WAS_CLOSED);
    CHECK_STOPPED(change_after_reuse, "gs_loop_run_once", WAS_CLOSED);
}

TEST(a_change_of_a_closed_descriptor_is_noticed)
{
    CHECK_STOPPED(change_after_close, "gs_loop_run_once", WAS_CLOSED);
}

TEST(a_start_that_needed_to_be_set_is_noticed)
{
    CHECK_STOPPED(restart_without_set, "gs_loop_run_once", WAS_CLOSED);
}

/* ---- Correct use ---- */

static void end(void)
{
    gs_loop_free(loop);
    close_fds();
}

static void check_readable(struct gs_io *io)
{
    called = 0;
    CHECK_EQ(write(fds[1], "x", 1), 1);
    run();
    CHECK_EQ(called, 1);
    gs_io_stop(io);
}

TEST(a_watcher_is_stopped_and_set_again)
{
    begin();
    gs_io_stop(&first);
    reuse_numbers();
    gs_io_set(&first, fds[0], GS_READ);
    CHECK_EQ(gs_io_start(&first), 0);
    check_readable(&first);
    end();
}

TEST(the_loop_is_told_of_the_close)
{
    begin();
    gs_loop_fd_closed(loop, fds[0]);
    reuse_numbers();
    CHECK_EQ(gs_io_start(&first), 0);
    check_readable(&first);
    end();
}

TEST(a_new_watcher_takes_the_number)
{
    begin();
    gs_io_stop(&first);
    reuse_numbers();
    watch(&second, fds[0]);
    check_readable(&second);
    end();
}

TEST(several_watchers_watch_a_descriptor)
{
    begin();
    watch(&second, fds[0]);
    run();
    gs_io_set_events(&first, 0);
    run();
    gs_io_stop(&first);
    CHECK_EQ(gs_io_start(&first), 0);
    check_readable(&second);
    end();
}
