#include "serve/operations/watchdog.h"

#include "serve/operations/server.h"
#include "tests/test.h"

static struct serve_options options;
static struct serve_counts counts[2];
static struct serve_drain drain;
static struct serve_server server;

static void init(void)
{
    memset(counts, 0, sizeof counts);
    memset(&drain, 0, sizeof drain);
    options.drain_timeout_ns = 0;
    server =
        (struct serve_server){.options = &options, .counts = counts, .workers = 2, .drain = &drain};
}

TEST(a_process_that_is_stuck_ends_after_the_drain_timeout)
{
    int status;
    init();
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        counts[1].http.connections = 5;
        counts[1].http.closed = 2;
        serve_watchdog_start(&server);
        for (;;)
            pause();
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), SERVE_EXIT_CUT_OFF);
}

TEST(a_watchdog_that_is_stopped_in_time_ends_nothing)
{
    init();
    options.drain_timeout_ns = 3600 * GS_SECOND;
    serve_watchdog_start(&server);
    CHECK(atomic_load(&drain.is_draining));
    serve_watchdog_stop(&server);
    CHECK_EQ(atomic_load(&drain.cut_off), 0);
}

/* As in wait_for_all of serve/operations/children.c, the signal is blocked only after the watchdog
 * was started, which so does not inherit that. Its action is the default one: a thread that takes
 * it drops it. */
TEST(a_watchdog_takes_no_signal_that_another_thread_waits_for)
{
    const struct timespec limit = {.tv_sec = 20};
    sigset_t child, before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    init();
    options.drain_timeout_ns = 3600 * GS_SECOND;
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &child, &before), 0);
    serve_watchdog_start(&server);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &child, NULL), 0);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(kill(getpid(), SIGCHLD), 0);
        usleep(1000);
        CHECK_EQ(sigtimedwait(&child, NULL, &limit), SIGCHLD);
    }
    serve_watchdog_stop(&server);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

TEST(a_drain_without_a_limit_is_watched_but_not_ended)
{
    init();
    options.drain_timeout_ns = GS_NEVER;
    serve_watchdog_start(&server);
    CHECK(server.watchdog.has_thread && !server.watchdog.has_timer);
    serve_watchdog_stop(&server);
}

TEST(a_watchdog_that_was_not_started_can_be_stopped)
{
    init();
    serve_watchdog_stop(&server);
    CHECK(!atomic_load(&drain.is_draining));
}
