#include "tests/loop/fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

static struct gs_loop *loop;
static struct gs_signal a, b;

static void on_signal(struct gs_signal *signal)
{
    log_call(&signal->watcher);
}

static void set_up(void)
{
    loop = new_loop();
    gs_signal_init(&a, loop, on_signal);
    gs_signal_init(&b, loop, on_signal);
    a.watcher.data = "a";
    b.watcher.data = "b";
}

TEST(raised_signal_is_called_back_in_the_loop)
{
    set_up();
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    CHECK_EQ(step(loop), 0);
    raise(SIGUSR1);
    CHECK_STR(calls, "");
    CHECK_EQ(gs_loop_step(loop, GS_NEVER), 1);
    CHECK_EQ(step(loop), 0);
    gs_loop_free(loop);
}

TEST(every_watcher_of_the_signal_is_called_and_of_no_other)
{
    struct gs_signal other;
    set_up();
    gs_signal_init(&other, loop, on_signal);
    other.watcher.data = "o";
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    CHECK_EQ(gs_signal_start(&b, SIGUSR1), 0);
    CHECK_EQ(gs_signal_start(&other, SIGUSR2), 0);
    raise(SIGUSR1);
    CHECK_EQ(step(loop), 2);
    CHECK_STR(calls, "ab");
    raise(SIGUSR2);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "abo");
    gs_loop_free(loop);
}

TEST(impossible_signals_are_refused)
{
    set_up();
    CHECK_EQ(gs_signal_start(&a, 0), -EINVAL);
    CHECK_EQ(gs_signal_start(&a, -1), -EINVAL);
    CHECK_EQ(gs_signal_start(&a, 65), -EINVAL);
    CHECK_EQ(gs_signal_start(&a, SIGKILL), -EINVAL);
    CHECK_EQ(gs_signal_start(&a, SIGSTOP), -EINVAL);
    CHECK(!gs_watcher_is_active(&a.watcher));
    CHECK_EQ(gs_loop_run(loop), 0);
    gs_loop_free(loop);
}

TEST(every_loop_that_watches_the_signal_is_told)
{
    struct gs_loop *others[3];
    struct gs_signal watchers[3];
    set_up();
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(gs_loop_new(&others[i]), 0);
        gs_signal_init(&watchers[i], others[i], on_signal);
        watchers[i].watcher.data = (char *[]){"0", "1", "2"}[i];
        CHECK_EQ(gs_signal_start(&watchers[i], i < 2 ? SIGUSR1 : SIGUSR2), 0);
    }
    raise(SIGUSR1);
    CHECK_EQ(step(others[0]), 1);
    CHECK_EQ(step(others[1]), 1);
    CHECK_EQ(step(others[2]), 0);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "01a");
    /* Each goes its own way, whatever the order. */
    gs_loop_free(others[1]);
    gs_signal_stop(&a);
    raise(SIGUSR1);
    raise(SIGUSR2);
    CHECK_EQ(step(loop), 0);
    CHECK_EQ(step(others[2]), 1);
    CHECK_EQ(step(others[0]), 1);
    CHECK_STR(calls, "01a20");
    gs_loop_free(others[0]);
    gs_loop_free(others[2]);
    struct sigaction action;
    CHECK_EQ(sigaction(SIGUSR1, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_DFL);
    gs_loop_free(loop);
}

static volatile sig_atomic_t former_calls;

static void former_handler(int number)
{
    (void)number;
    former_calls = former_calls + 1;
}

TEST(former_action_comes_back_when_the_last_watcher_stops)
{
    set_up();
    signal(SIGUSR1, former_handler);
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    CHECK_EQ(gs_signal_start(&b, SIGUSR1), 0);
    gs_signal_stop(&a);
    raise(SIGUSR1);
    CHECK_EQ(former_calls, 0);
    CHECK_EQ(step(loop), 1);
    gs_signal_stop(&b);
    gs_signal_stop(&b);
    raise(SIGUSR1);
    CHECK_EQ(former_calls, 1);
    CHECK_EQ(step(loop), 0);
    signal(SIGUSR1, SIG_DFL);
    gs_loop_free(loop);
}

TEST(signal_stopped_after_it_was_raised_is_not_called)
{
    set_up();
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    raise(SIGUSR1);
    gs_signal_stop(&a);
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    CHECK_EQ(step(loop), 0);
    gs_loop_free(loop);
}

static void *send_to_process(void *data)
{
    (void)data;
    usleep(2000);
    kill(getpid(), SIGUSR1);
    return NULL;
}

TEST(signal_ends_a_wait_without_limit_whatever_thread_takes_it)
{
    for (int is_blocked_here = 0; is_blocked_here < 2; is_blocked_here++) {
        pthread_t thread;
        sigset_t set;
        set_up();
        CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
        CHECK_EQ(pthread_create(&thread, NULL, send_to_process, NULL), 0);
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        if (is_blocked_here)
            pthread_sigmask(SIG_BLOCK, &set, NULL);
        while (!calls[0])
            CHECK(gs_loop_step(loop, GS_NEVER) >= 0);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        CHECK_STR(calls, "a");
        pthread_join(thread, NULL);
        gs_loop_free(loop);
    }
}
