/* Fork, cleanup and freeing of the loop, with every kind of watcher. */
#include "tests/loop/kinds_fixture.h"

/* ---- Fork ---- */

/* Runs in the child process; the exit status is the number of the failed check. */
static int child_of_fork(void)
{
    clear_calls();
    if (gs_loop_after_fork(loop) || strcmp(calls, "F"))
        return 1;
    gs_loop_check(loop);
    if (gs_watcher_is_active(&all.child.watcher))
        return 2;
    stop_those_of_each_iteration();
    while (step(loop) > 0)
        ;
    clear_calls();
    put_byte(all.pair[1]);
    raise(SIGUSR1);
    gs_async_send(&all.async);
    if (step(loop) != 3 || strcmp(calls, "rsa"))
        return 3;
    take_byte(all.pair[0]);
    clear_calls();
    if (gs_timer_start(&all.timer, 1) || gs_periodic_start(&all.periodic, 1))
        return 4;
    if (step(loop) != 2 || strcmp(calls, "tw"))
        return 5;
    gs_loop_free(loop);
    return strcmp(calls, "twC") ? 6 : 0;
}

TEST(every_kind_of_watcher_except_children_works_in_a_child_process)
{
    int status;
    set_up();
    step(loop);
    pid_t child = fork();
    if (!child)
        _exit(child_of_fork());
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    /* The watchers of the parent are unchanged. */
    stop_those_of_each_iteration();
    while (step(loop) > 0)
        ;
    clear_calls();
    put_byte(all.pair[1]);
    raise(SIGUSR1);
    gs_async_send(&all.async);
    CHECK_EQ(step(loop), 3);
    CHECK_STR(calls, "rsa");
    take_byte(all.pair[0]);
    kill(all.pid, SIGTERM);
    while (!strchr(calls, 'c'))
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    tear_down();
}

/* Both processes watch the same file, and each must get every change. */
static int file_in_child(const char *path, const int pair[2])
{
    char byte;
    if (gs_loop_after_fork(loop))
        return 1;
    step(loop);
    clear_calls();
    if (unlink(path))
        return 2;
    while (!calls[0])
        if (gs_loop_run_once(loop, GS_NEVER) < 0)
            return 3;
    put_byte(pair[1]);
    if (read(pair[1], &byte, 1) < 0)
        return 4;
    return 0;
}

TEST(file_is_watched_by_both_processes)
{
    char path[] = "/tmp/gossamer-life-XXXXXX";
    int pair[2], status, fd = mkstemp(path);
    char byte;
    CHECK(fd >= 0);
    loop = new_loop();
    connect_pair(pair);
    fcntl(pair[0], F_SETFL, 0);
    fcntl(pair[1], F_SETFL, 0);
    gs_file_init(&all.file, loop, on_file);
    all.file.watcher.data = "f";
    CHECK_EQ(gs_file_start(&all.file, path, 0), 0);
    step(loop);
    pid_t child = fork();
    if (!child)
        _exit(file_in_child(path, pair));
    CHECK_EQ(read(pair[0], &byte, 1), 1);
    while (!calls[0])
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    CHECK_STR(calls, "f");
    put_byte(pair[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    gs_loop_free(loop);
    close_pair(pair);
    close(fd);
}

static long refuse_clock(long number, void *data)
{
    (void)data;
    return number == SYS_timerfd_create ? -EMFILE : 0;
}

TEST(fork_that_gets_no_descriptor_for_the_clock_leaves_all_as_it_was)
{
    set_up();
    stop_those_of_each_iteration();
    int next_fd = dup(0);
    close(next_fd);
    gs_sys_set_fault(refuse_clock, NULL);
    CHECK_EQ(gs_loop_after_fork(loop), -EMFILE);
    gs_sys_set_fault(NULL, NULL);
    int fd = dup(0);
    close(fd);
    CHECK_EQ(fd, next_fd);
    CHECK_STR(calls, "");
    CHECK(gs_watcher_is_active(&all.child.watcher));
    put_byte(all.pair[1]);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "r");
    tear_down();
}

static void stop_fork(struct gs_fork *fork)
{
    log_call(&fork->watcher);
    gs_fork_stop(&all.fork);
}

TEST(fork_watchers_are_called_by_priority_and_then_by_start)
{
    struct gs_fork forks[4];
    loop = new_loop();
    for (int i = 0; i < 4; i++) {
        gs_fork_init(&forks[i], loop, on_fork);
        forks[i].watcher.data = (char *[]){"0", "1", "2", "3"}[i];
    }
    gs_fork_init(&all.fork, loop, on_fork);
    all.fork.watcher.data = "x";
    gs_watcher_set_priority(&forks[2].watcher, 2);
    forks[1].callback = stop_fork;
    for (int i = 0; i < 4; i++)
        gs_fork_start(&forks[i]);
    gs_fork_start(&all.fork);
    CHECK_EQ(gs_loop_after_fork(loop), 0);
    CHECK_STR(calls, "2013");
    gs_loop_check(loop);
    gs_fork_stop(&forks[0]);
    CHECK_EQ(gs_loop_after_fork(loop), 0);
    CHECK_STR(calls, "2013213");
    CHECK_EQ(gs_loop_run(loop), 0);
    gs_loop_free(loop);
}

/* ---- Cleanup and free ---- */

static struct gs_loop_cleanup cleanups[4];

static void start_another(struct gs_loop_cleanup *cleanup)
{
    on_cleanup(cleanup);
    if (gs_watcher_is_active(&cleanup->watcher) || !gs_watcher_is_active(&all.timer.watcher))
        abort();
    gs_loop_cleanup_start(&cleanups[3]);
    gs_loop_cleanup_stop(&cleanups[0]);
}

TEST(cleanup_watchers_are_called_at_the_end_the_last_started_first)
{
    set_up();
    for (int i = 0; i < 4; i++) {
        gs_loop_cleanup_init(&cleanups[i], loop, i == 1 ? start_another : on_cleanup);
        cleanups[i].watcher.data = (char *[]){"0", "1", "2", "3"}[i];
    }
    for (int i = 0; i < 3; i++)
        gs_loop_cleanup_start(&cleanups[i]);
    gs_loop_check(loop);
    tear_down();
    CHECK_STR(calls, "213C");
}

TEST(cleanup_watchers_do_not_keep_the_loop)
{
    loop = new_loop();
    gs_loop_cleanup_init(&cleanups[0], loop, on_cleanup);
    cleanups[0].watcher.data = "0";
    gs_loop_cleanup_start(&cleanups[0]);
    gs_loop_cleanup_start(&cleanups[0]);
    CHECK_EQ(gs_loop_run(loop), 0);
    gs_loop_cleanup_stop(&cleanups[0]);
    gs_loop_cleanup_stop(&cleanups[0]);
    gs_loop_free(loop);
    CHECK_STR(calls, "");
}

TEST(free_stops_every_kind_and_closes_all_descriptors)
{
    int next_fd = dup(0);
    close(next_fd);
    set_up();
    step(loop);
    clear_calls();
    gs_loop_free(loop);
    CHECK_STR(calls, "C");
    const struct gs_watcher *watchers[] = {
        &all.io.watcher,    &all.child.watcher, &all.timer.watcher, &all.periodic.watcher,
        &all.file.watcher,  &all.fork.watcher,  &all.op.io.watcher, &all.cleanup.watcher,
        &all.idle.watcher,  &all.check.watcher, &all.async.watcher, &all.prepare.watcher,
        &all.signal.watcher};
    for (size_t i = 0; i < sizeof watchers / sizeof *watchers; i++)
        CHECK(!gs_watcher_is_active(watchers[i]));
    end_child();
    int fd = dup(0);
    close(fd);
    CHECK_EQ(fd, next_fd);
}
