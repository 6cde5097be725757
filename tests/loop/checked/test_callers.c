/* Which kernel thread may use a loop. */
#include "tests/thread/checked/misuse.h"

#include <gossamer/loop.h>

static struct gs_loop *loop;
static struct gs_timer timer, other_timer;
static struct gs_async async;
static atomic_bool is_running;
static int called;

static void on_running(struct gs_timer *unused)
{
    (void)unused;
    atomic_store(&is_running, true);
}

static void on_timer(struct gs_timer *unused)
{
    (void)unused;
    called++;
}

static void on_async(struct gs_async *unused)
{
    (void)unused;
    called++;
    gs_loop_stop(loop);
}

static void *run(void *unused)
{
    gs_loop_run(loop);
    return unused;
}

/* Run the loop in another kernel thread. */
static pthread_t run_in_pthread(void)
{
    pthread_t kernel_thread;
    atomic_store(&is_running, false);
    MUST_EQ(gs_loop_new(&loop), 0);
    gs_timer_init(&timer, loop, on_running);
    gs_timer_init(&other_timer, loop, on_timer);
    gs_async_init(&async, loop, on_async);
    gs_async_start(&async);
    gs_timer_start(&timer, gs_loop_now(loop));
    MUST_EQ(pthread_create(&kernel_thread, NULL, run, NULL), 0);
    while (!atomic_load(&is_running))
        usleep(100);
    return kernel_thread;
}

static void start_from_outside(void)
{
    report_to_stderr();
    run_in_pthread();
    gs_timer_start(&other_timer, GS_NEVER);
}

static void stop_watcher_from_outside(void)
{
    report_to_stderr();
    run_in_pthread();
    gs_async_stop(&async);
}

static void stop_from_outside(void)
{
    report_to_stderr();
    run_in_pthread();
    gs_loop_stop(loop);
}

static void run_from_outside(void)
{
    report_to_stderr();
    run_in_pthread();
    gs_loop_run_once(loop, 0);
}

static void free_from_outside(void)
{
    report_to_stderr();
    run_in_pthread();
    gs_loop_free(loop);
}

TEST(a_loop_that_another_kernel_thread_runs_cannot_be_used)
{
    const char *is_run =
        "loop 0x[0-9a-f]+ is run by kernel thread [0-9]+: others may only call gs_async_send and "
        "gs_loop_wake";
    CHECK_STOPPED(start_from_outside, "gs_timer_start", is_run);
    CHECK_STOPPED(stop_watcher_from_outside, "gs_async_stop", is_run);
    CHECK_STOPPED(stop_from_outside, "gs_loop_stop", is_run);
    CHECK_STOPPED(run_from_outside, "gs_loop_run_once", is_run);
    CHECK_STOPPED(free_from_outside, "gs_loop_free", is_run);
}

static void wake_freed(void)
{
    report_to_stderr();
    MUST_EQ(gs_loop_new(&loop), 0);
    gs_loop_free(loop);
    gs_loop_wake(loop);
}

static void wake_none(void)
{
    report_to_stderr();
    gs_loop_wake(NULL);
}

TEST(a_loop_that_does_not_exist_cannot_be_woken)
{
    CHECK_STOPPED(wake_freed, "gs_loop_wake", "loop 0x[0-9a-f]+ was freed before");
    CHECK_STOPPED(wake_none, "gs_loop_wake",
                  "the loop is NULL, or the watcher was not initialised");
}

TEST(it_can_be_sent_to_and_woken_and_used_afterwards)
{
    called = 0;
    pthread_t kernel_thread = run_in_pthread();
    gs_loop_wake(loop);
    gs_async_send(&async);
    CHECK_EQ(pthread_join(kernel_thread, NULL), 0);
    CHECK_EQ(called, 1);
    gs_async_stop(&async);
    CHECK_EQ(gs_timer_start(&other_timer, gs_loop_now(loop)), 0);
    if (strcmp(gs_loop_poller(loop), "io_uring")) {
        CHECK_EQ(gs_loop_run(loop), 0);
        CHECK_EQ(called, 2);
    }
    gs_loop_free(loop);
}

/* ---- Runs in callbacks, and in the child of a fork ---- */

static void run_again(struct gs_timer *unused)
{
    (void)unused;
    MUST_EQ(gs_timer_start(&other_timer, gs_loop_now(loop)), 0);
    MUST_EQ(gs_loop_run(loop), 0);
}

static void fork_in_callback(struct gs_timer *unused)
{
    int status;
    (void)unused;
    pid_t pid = fork();
    if (!pid) {
        MUST_EQ(gs_loop_after_fork(loop), 0);
        run_again(NULL);
        _exit(called == 2 ? 0 : 1);
    }
    MUST_EQ(waitpid(pid, &status, 0), pid);
    MUST_EQ(status, 0);
}

static void run_loop_with(gs_timer_fn *fn)
{
    CHECK_EQ(gs_loop_new(&loop), 0);
    gs_timer_init(&timer, loop, fn);
    gs_timer_init(&other_timer, loop, on_timer);
    CHECK_EQ(gs_timer_start(&timer, gs_loop_now(loop)), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    gs_loop_free(loop);
}

TEST(a_callback_runs_the_loop)
{
    called = 0;
    run_loop_with(run_again);
    CHECK_EQ(called, 1);
}

TEST(the_child_of_a_fork_in_a_callback_uses_the_loop)
{
    called = 1;
    run_loop_with(fork_in_callback);
    CHECK_EQ(called, 1);
}

/* ---- io_uring ---- */

static void run_after_other(void)
{
    report_to_stderr();
    setenv("GS_POLLER", "io_uring", 1);
    pthread_t kernel_thread = run_in_pthread();
    gs_async_send(&async);
    MUST_EQ(pthread_join(kernel_thread, NULL), 0);
    if (strcmp(gs_loop_poller(loop), "io_uring"))
        _exit(77);
    gs_loop_run(loop);
}

TEST(a_loop_on_io_uring_stays_with_its_kernel_thread)
{
    if (in_child(run_after_other) == 77 << 8)
        SKIP("io_uring is not available");
    CHECK_STOPPED(
        run_after_other, "gs_loop_run",
        "loop 0x[0-9a-f]+ is one on io_uring, and was run by kernel thread [0-9]+ before");
}
