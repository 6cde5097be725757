/* Several file watchers at once, and files that must be polled. */
#include "tests/loop/file_fixture.h"
#include "tests/refused_call.h"

#define FILE_TEST(name_) FIXTURE_TEST(name_, set_up(), tear_down())

FILE_TEST(watchers_of_the_same_file_and_directory_do_not_disturb_each_other)
{
    create("f");
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    CHECK_EQ(gs_file_start(&b, "./f", 0), 0);
    append("f");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
    CHECK_EQ(events_of_b, GS_FILE_CONTENT);
    gs_file_stop(&b);
    gs_file_stop(&b);
    append("f");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
    CHECK_EQ(gs_file_start(&b, "g", 0), 0);
    gs_file_stop(&b);
    CHECK_EQ(gs_file_start(&b, ".", 0), 0);
    create("g");
    CHECK_EQ(next_events(), 0);
    CHECK_EQ(events_of_b, GS_FILE_CONTENT);
    gs_file_stop(&b);
    unlink("f");
    CHECK_EQ(next_events(), GS_FILE_REMOVED);
    gs_file_stop(&a);
    CHECK_EQ(gs_loop_run(loop), 0);
}

FILE_TEST(absolute_paths_and_the_root_are_watched)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/f", directory);
    CHECK_EQ(gs_file_start(&a, path, 0), 0);
    CHECK_EQ(gs_file_start(&b, "/", 0), 0);
    memset(path, 'x', sizeof path - 1);
    create("f");
    CHECK_EQ(next_events(), GS_FILE_CREATED);
    CHECK_EQ(gs_file_start(&b, "", 0), 0);
    gs_file_stop(&b);
    CHECK_EQ(gs_file_start(&b, "", 0), -ENOENT);
}

static void stop_all(struct gs_file *file, unsigned events)
{
    on_change(file, events);
    gs_file_stop(&a);
    gs_file_stop(&b);
}

FILE_TEST(watcher_stopped_before_its_call_is_not_called)
{
    a.callback = b.callback = stop_all;
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    CHECK_EQ(gs_file_start(&b, "f", 0), 0);
    create("f");
    step(loop);
    CHECK_EQ(strlen(calls), 1);
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    append("f");
    gs_file_stop(&a);
    CHECK_EQ(next_events(), 0);
}

FILE_TEST(fed_watcher_is_called_with_what_it_is_fed)
{
    create("f");
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    gs_watcher_feed(&a.watcher, GS_FILE_REMOVED);
    CHECK_EQ(next_events(), GS_FILE_REMOVED);
    gs_watcher_feed(&a.watcher, 0);
    append("f");
    CHECK_EQ(next_events(), GS_FILE_CONTENT);
    gs_watcher_feed(&a.watcher, 0);
    CHECK_EQ(next_events(), 0);
    CHECK_STR(calls, "aaa");
}

FILE_TEST(iteration_that_finds_nothing_new_calls_nothing)
{
    create("f");
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    unlink("f");
    CHECK_EQ(step(loop), 1);
    create("f");
    unlink("f");
    CHECK_EQ(step(loop), 0);
    CHECK_STR(calls, "a");
}

TEST(file_that_the_kernel_does_not_watch_is_polled)
{
    struct refused_call refusals[] = {{SYS_inotify_init1, -EMFILE},
                                      {SYS_inotify_add_watch, -ENOSPC}};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        set_up();
        create("f");
        gs_sys_set_fault(refuse_call, &refusals[i]);
        CHECK_EQ(gs_file_start(&a, "f", GS_SECOND), 0);
        CHECK_EQ(gs_file_start(&b, "f", 3 * GS_SECOND), 0);
        append("f");
        CHECK_EQ(next_events_after(GS_SECOND - 1), 0);
        CHECK_EQ(next_events_after(1), GS_FILE_CONTENT);
        CHECK_EQ(events_of_b, 0);
        CHECK_EQ(chmod("f", 0644), 0);
        CHECK_EQ(next_events_after(GS_SECOND), GS_FILE_ATTRIBUTES);
        CHECK_EQ(next_events_after(GS_SECOND), 0);
        CHECK_EQ(events_of_b, GS_FILE_CONTENT | GS_FILE_ATTRIBUTES);
        unlink("f");
        CHECK_EQ(next_events_after(GS_SECOND), GS_FILE_REMOVED);
        /* The kernel watches it as soon as that is possible. */
        gs_sys_set_fault(NULL, NULL);
        CHECK_EQ(next_events_after(GS_SECOND), 0);
        create("f");
        CHECK_EQ(next_events(), GS_FILE_CREATED);
        append("f");
        CHECK_EQ(next_events(), GS_FILE_CONTENT);
        tear_down();
    }
}

FILE_TEST(file_of_a_virtual_file_system_is_polled)
{
    CHECK_EQ(gs_file_start(&a, "/proc/self/stat", GS_SECOND), 0);
    CHECK(a.next_check_ns == clock_ns + GS_SECOND);
    CHECK_EQ(gs_file_start(&b, "/proc/self/stat", 0), 0);
    CHECK(b.next_check_ns == clock_ns + 5 * GS_SECOND);
    CHECK_EQ(gs_loop_next_timer(loop), clock_ns + GS_SECOND);
}

FILE_TEST(reports_that_overflow_the_kernels_queue_lose_no_state)
{
    create("f");
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    for (int i = 0; i < 20000; i++) {
        create("x");
        unlink("x");
    }
    create("new");
    append("new");
    CHECK_EQ(rename("new", "f"), 0);
    next_events();
    CHECK_EQ(a.now.size, 1);
    append("f");
    CHECK(next_events() & GS_FILE_CONTENT);
}

FILE_TEST(wait_ends_when_a_file_changes)
{
    gs_loop_set_clock(loop, NULL, NULL);
    CHECK_EQ(gs_file_start(&a, "f", 0), 0);
    pid_t child = fork();
    if (!child) {
        usleep(2000);
        create("f");
        _exit(0);
    }
    while (!calls[0])
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    CHECK_EQ(events_of_a, GS_FILE_CREATED);
    waitpid(child, NULL, 0);
}
