/* Watchers that are not initialised, are moved while active, or outlive their loop. */
#include "tests/thread/checked/misuse.h"

#include <gossamer/loop.h>

static struct gs_loop *loop;
static struct gs_io io;
static struct gs_timer timer;
static int fds[2], called;

static void on_io(struct gs_io *unused, unsigned events)
{
    (void)unused, (void)events;
    called++;
}

static void on_timer(struct gs_timer *unused)
{
    (void)unused;
    called++;
}

static void make_loop(void)
{
    MUST_EQ(gs_loop_new(&loop), 0);
    MUST_EQ(pipe(fds), 0);
    gs_io_init(&io, loop, on_io);
    gs_io_set(&io, fds[0], GS_READ);
    gs_timer_init(&timer, loop, on_timer);
}

static void close_all(void)
{
    gs_loop_free(loop);
    close(fds[0]);
    close(fds[1]);
}

/* In the child. */
static void begin(void)
{
    report_to_stderr();
    make_loop();
}

static void start_io(void)
{
    MUST_EQ(gs_io_start(&io), 0);
}

/* A function that starts a watcher. */
#define START(name_, ...)                                                                          \
    static int name_(void *watcher)                                                                \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }

/* ---- Watchers that were not initialised ---- */

START(start_zero_io, gs_io_start(watcher))
START(start_timer, gs_timer_start(watcher, GS_NEVER))
START(start_timer_repeat, gs_timer_start_repeat(watcher, GS_NEVER, 1))
START(start_periodic, gs_periodic_start(watcher, 1))
START(start_signal, gs_signal_start(watcher, SIGUSR1))
START(start_child, gs_child_start(watcher, 1))
START(start_file, gs_file_start(watcher, "/", 0))

static int start_idle(void *watcher)
{
    gs_idle_start(watcher);
    return 0;
}

static int start_prepare(void *watcher)
{
    gs_prepare_start(watcher);
    return 0;
}

static int start_check(void *watcher)
{
    gs_check_start(watcher);
    return 0;
}

static int start_async(void *watcher)
{
    gs_async_start(watcher);
    return 0;
}

static int start_fork(void *watcher)
{
    gs_fork_start(watcher);
    return 0;
}

static int start_cleanup(void *watcher)
{
    gs_loop_cleanup_start(watcher);
    return 0;
}

START(start_embed, gs_embed_start(watcher))
START(start_oneshot, gs_oneshot_start(watcher, -1, 0, GS_NEVER))
START(receive, gs_op_recv(watcher, 0, NULL, 0, 0))

static const struct {
    const char *function;
    size_t size;
    int (*start)(void *watcher);
} starts[] = {
    {"gs_io_start", sizeof(struct gs_io), start_zero_io},
    {"gs_timer_start", sizeof(struct gs_timer), start_timer},
    {"gs_timer_start_repeat", sizeof(struct gs_timer), start_timer_repeat},
    {"gs_periodic_start", sizeof(struct gs_periodic), start_periodic},
    {"gs_signal_start", sizeof(struct gs_signal), start_signal},
    {"gs_child_start", sizeof(struct gs_child), start_child},
    {"gs_file_start", sizeof(struct gs_file), start_file},
    {"gs_idle_start", sizeof(struct gs_idle), start_idle},
    {"gs_prepare_start", sizeof(struct gs_prepare), start_prepare},
    {"gs_check_start", sizeof(struct gs_check), start_check},
    {"gs_async_start", sizeof(struct gs_async), start_async},
    {"gs_fork_start", sizeof(struct gs_fork), start_fork},
    {"gs_loop_cleanup_start", sizeof(struct gs_loop_cleanup), start_cleanup},
    {"gs_embed_start", sizeof(struct gs_embed), start_embed},
    {"gs_oneshot_start", sizeof(struct gs_oneshot), start_oneshot},
    {"gs_op_recv", sizeof(struct gs_op), receive},
};

static size_t number;
static int fill;

static void start_uninitialised(void)
{
    static _Alignas(64) char memory[1024];
    report_to_stderr();
    MUST(starts[number].size <= sizeof memory);
    memset(memory, fill, sizeof memory);
    MUST_EQ(starts[number].start(memory), 0);
}

TEST(a_watcher_that_was_not_initialised_cannot_be_started)
{
    const int fills[] = {0, 0x5a, 0xff};
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        for (number = 0; number < sizeof starts / sizeof *starts; number++) {
            fill = fills[i];
            CHECK_STOPPED(start_uninitialised, starts[number].function,
                          "watcher 0x[0-9a-f]+ was not initialised");
        }
}

static void start_other_kind(void)
{
    begin();
    MUST_EQ(gs_io_start((struct gs_io *)&timer), 0);
}

static void send_uninitialised(void)
{
    static struct gs_async async;
    report_to_stderr();
    gs_async_send(&async);
}

TEST(a_watcher_of_another_kind_cannot_be_started)
{
    CHECK_STOPPED(start_other_kind, "gs_io_start",
                  "watcher 0x[0-9a-f]+ was not initialised as one of this kind");
}

TEST(an_async_that_was_not_initialised_cannot_be_sent)
{
    CHECK_STOPPED(send_uninitialised, "gs_async_send",
                  "the loop is NULL, or the watcher was not initialised");
}

/* ---- Active watchers ---- */

static void init_active_io(void)
{
    begin();
    start_io();
    gs_io_init(&io, loop, on_io);
}

static void init_active_timer(void)
{
    begin();
    gs_timer_start(&timer, GS_NEVER);
    gs_timer_init(&timer, loop, on_timer);
}

static void set_active(void)
{
    begin();
    start_io();
    gs_io_set(&io, fds[1], GS_WRITE);
}

static void set_priority_of_active(void)
{
    begin();
    start_io();
    gs_watcher_set_priority(&io.watcher, 1);
}

TEST(an_active_watcher_is_not_initialised_nor_set)
{
    const char *is_active = "watcher 0x[0-9a-f]+ is active, or was freed while it was active";
    CHECK_STOPPED(init_active_io, "gs_io_init", is_active);
    CHECK_STOPPED(init_active_timer, "gs_timer_init", is_active);
    CHECK_STOPPED(set_active, "gs_io_set", "watcher 0x[0-9a-f]+ is active");
    CHECK_STOPPED(set_priority_of_active, "gs_watcher_set_priority",
                  "watcher 0x[0-9a-f]+ is active");
}

static struct gs_io moved_io;
static struct gs_timer moved_timer;

static void stop_moved_io(void)
{
    begin();
    start_io();
    moved_io = io;
    gs_io_stop(&moved_io);
}

static void change_moved_io(void)
{
    begin();
    start_io();
    moved_io = io;
    gs_io_set_events(&moved_io, GS_WRITE);
}

static void start_moved_timer(void)
{
    begin();
    gs_timer_start(&timer, GS_NEVER);
    moved_timer = timer;
    gs_timer_start(&moved_timer, GS_NEVER);
}

TEST(an_active_watcher_is_not_moved)
{
    const char *is_copy = "watcher 0x[0-9a-f]+ is a copy of an active one, which must not be moved";
    CHECK_STOPPED(stop_moved_io, "gs_io_stop", is_copy);
    CHECK_STOPPED(change_moved_io, "gs_io_set_events", is_copy);
    CHECK_STOPPED(start_moved_timer, "gs_timer_start", is_copy);
}

/* ---- Loops that were freed ---- */

static void start_after_free(void)
{
    begin();
    gs_loop_free(loop);
    start_io();
}

static void free_twice(void)
{
    begin();
    gs_loop_free(loop);
    gs_loop_free(loop);
}

static void run_after_free(void)
{
    begin();
    gs_loop_free(loop);
    gs_loop_run(loop);
}

static void wake_after_free(void)
{
    begin();
    gs_loop_free(loop);
    gs_loop_wake(loop);
}

static void free_in_callback(struct gs_timer *expired)
{
    gs_loop_free(expired->watcher.loop);
}

static void free_running(void)
{
    begin();
    gs_timer_init(&timer, loop, free_in_callback);
    gs_timer_start(&timer, gs_loop_now(loop));
    gs_loop_run(loop);
}

TEST(a_loop_that_was_freed_cannot_be_used)
{
    const char *was_freed = "loop 0x[0-9a-f]+ was freed before";
    CHECK_STOPPED(start_after_free, "gs_io_start",
                  "the loop 0x[0-9a-f]+ of watcher 0x[0-9a-f]+ was freed");
    CHECK_STOPPED(free_twice, "gs_loop_free", was_freed);
    CHECK_STOPPED(run_after_free, "gs_loop_run", was_freed);
    CHECK_STOPPED(wake_after_free, "gs_loop_wake", was_freed);
}

TEST(a_loop_is_not_freed_by_its_callbacks)
{
    CHECK_STOPPED(free_running, "gs_loop_free",
                  "loop 0x[0-9a-f]+ is running: it was called by one of its callbacks");
}

/* ---- Correct use ---- */

static void free_own_timer(struct gs_timer *expired)
{
    called++;
    free(expired);
}

TEST(watchers_are_moved_reused_and_freed_when_they_are_not_active)
{
    make_loop();
    called = 0;
    for (int i = 0; i < 1000; i++) {
        struct gs_timer *own = malloc(sizeof *own);
        start_io();
        CHECK_EQ(gs_io_start(&io), 0);
        gs_io_stop(&io);
        gs_io_stop(&io);
        moved_io = io;
        CHECK_EQ(gs_io_start(&moved_io), 0);
        gs_io_set_events(&moved_io, GS_READ);
        gs_io_stop(&moved_io);
        gs_io_init(&moved_io, loop, on_io);
        gs_timer_init(own, loop, free_own_timer);
        CHECK_EQ(gs_timer_start(own, gs_loop_now(loop)), 0);
        CHECK(gs_loop_run_once(loop, 0) >= 0);
    }
    CHECK_EQ(gs_loop_run(loop), 0);
    CHECK_EQ(called, 1000);
    close_all();
}

TEST(active_watchers_are_stopped_with_their_loop)
{
    struct gs_timer timers[300];
    make_loop();
    start_io();
    for (int i = 0; i < 300; i++) {
        gs_timer_init(&timers[i], loop, on_timer);
        CHECK_EQ(gs_timer_start(&timers[i], GS_NEVER), 0);
    }
    close_all();
    make_loop();
    for (int i = 0; i < 300; i++) {
        gs_timer_stop(&timers[i]);
        gs_timer_init(&timers[i], loop, on_timer);
    }
    gs_io_stop(&io);
    close_all();
}

TEST(many_loops_are_made_and_freed)
{
    for (int i = 0; i < 200; i++) {
        make_loop();
        start_io();
        CHECK_EQ(gs_loop_run_once(loop, 0), 0);
        close_all();
    }
}
