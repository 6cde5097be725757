#include "base/sanitized.h"
#include "tests/loop/fixture.h"

static struct gs_loop *loop;
static struct gs_signal a, b;

static void set_up(void)
{
    loop = new_loop();
    gs_signal_init(&a, loop, log_signal);
    gs_signal_init(&b, loop, log_signal);
    a.watcher.data = "a";
    b.watcher.data = "b";
}

#define SIGNAL_TEST(name_) FIXTURE_TEST(name_, set_up(), gs_loop_free(loop))

SIGNAL_TEST(raised_signal_is_called_back_in_the_loop)
{
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    CHECK_EQ(step(loop), 0);
    raise(SIGUSR1);
    CHECK_STR(calls, "");
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    CHECK_EQ(step(loop), 0);
}

SIGNAL_TEST(every_watcher_of_the_signal_is_called_and_of_no_other)
{
    static struct gs_signal other;
    gs_signal_init(&other, loop, log_signal);
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
}

SIGNAL_TEST(impossible_signals_are_refused)
{
    CHECK_EQ(gs_signal_start(&a, 0), -EINVAL);
    CHECK_EQ(gs_signal_start(&a, -1), -EINVAL);
    CHECK_EQ(gs_signal_start(&a, 65), -EINVAL);
    CHECK_EQ(gs_signal_start(&a, SIGKILL), -EINVAL);
    CHECK_EQ(gs_signal_start(&a, SIGSTOP), -EINVAL);
    CHECK(!gs_watcher_is_active(&a.watcher));
    CHECK_EQ(gs_loop_run(loop), 0);
}

SIGNAL_TEST(every_loop_that_watches_the_signal_calls_back)
{
    struct gs_loop *others[3];
    static struct gs_signal watchers[3];
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(gs_loop_new(&others[i]), 0);
        gs_signal_init(&watchers[i], others[i], log_signal);
        watchers[i].watcher.data = (char *[]){"0", "1", "2"}[i];
        CHECK_EQ(gs_signal_start(&watchers[i], i < 2 ? SIGUSR1 : SIGUSR2), 0);
    }
    raise(SIGUSR1);
    CHECK_EQ(step(others[0]), 1);
    CHECK_EQ(step(others[1]), 1);
    CHECK_EQ(step(others[2]), 0);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "01a");
    /* Loops can be freed in any order. */
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
}

static volatile sig_atomic_t former_calls;

static void previous_handler(int number)
{
    (void)number;
    former_calls = former_calls + 1;
}

SIGNAL_TEST(previous_action_is_restored_when_the_last_watcher_stops)
{
    signal(SIGUSR1, previous_handler);
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
}

SIGNAL_TEST(signal_stopped_after_it_was_raised_is_not_called)
{
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    raise(SIGUSR1);
    gs_signal_stop(&a);
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    CHECK_EQ(step(loop), 0);
}

/* Relaxed: nothing but the signal orders the two threads. */
static atomic_bool is_raised;
static int written;

static void *write_and_raise(void *unused)
{
    written = 1;
    raise(SIGUSR1);
    atomic_store_explicit(&is_raised, true, memory_order_relaxed);
    return unused;
}

TEST(callback_sees_what_was_written_before_the_signal)
{
    pthread_t thread;
    set_up();
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    CHECK_EQ(pthread_create(&thread, NULL, write_and_raise, NULL), 0);
    while (!atomic_load_explicit(&is_raised, memory_order_relaxed))
        sched_yield();
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(written, 1);
    pthread_join(thread, NULL);
    gs_loop_free(loop);
}

static void *send_to_process(void *data)
{
    usleep(2000);
    kill(getpid(), SIGUSR1);
    return data;
}

TEST(signal_ends_an_unlimited_wait_whichever_thread_handles_it)
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
            CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        CHECK_STR(calls, "a");
        pthread_join(thread, NULL);
        gs_loop_free(loop);
    }
}

/* ---- Forks ---- */

/* Forks are slow under sanitizers. */
#if GS_ASAN || GS_TSAN
#define FORKS 50
#else
#define FORKS 200
#endif
enum { CHILD_SECONDS = 20 };

static atomic_bool has_begun, is_finished; /* progress of the other kernel thread */

/* Runs in the child, which has no other thread; it is killed if it waits for one. */
static int stop_in_child(void)
{
    alarm(CHILD_SECONDS);
    if (gs_loop_after_fork(loop))
        return 1;
    gs_signal_stop(&a);
    if (gs_signal_start(&b, SIGUSR2))
        return 2;
    raise(SIGUSR2);
    if (gs_loop_run_once(loop, GS_NEVER) != 1 || strcmp(calls, "b"))
        return 3;
    gs_loop_free(loop);
    return 0;
}

/* Returns the first exit status that is not 0. */
static int fork_many(void)
{
    int status = 0;
    for (int i = 0; i < FORKS && !status; i++) {
        pid_t child = fork();
        if (!child)
            _exit(stop_in_child());
        if (child < 0 || waitpid(child, &status, 0) != child)
            status = -1;
    }
    return status;
}

static void check_forks_beside(void *(*other)(void *))
{
    pthread_t thread;
    set_up();
    CHECK_EQ(gs_signal_start(&a, SIGUSR1), 0);
    atomic_store(&is_finished, false);
    atomic_store(&has_begun, false);
    CHECK_EQ(pthread_create(&thread, NULL, other, NULL), 0);
    while (!atomic_load(&has_begun))
        sched_yield();
    int status = fork_many();
    atomic_store(&is_finished, true);
    pthread_join(thread, NULL);
    CHECK_EQ(status, 0);
    gs_loop_free(loop);
}

static struct gs_loop *start_own(struct gs_signal *signal, int number)
{
    struct gs_loop *own;
    if (gs_loop_new(&own))
        abort();
    gs_signal_init(signal, own, log_signal);
    if (gs_signal_start(signal, number))
        abort();
    return own;
}

/* ---- Two kernel threads ---- */

static pthread_barrier_t both_watch;

static void *stop_with_another(void *unused)
{
    struct gs_signal signal;
    struct gs_loop *own = start_own(&signal, SIGUSR1);
    pthread_barrier_wait(&both_watch);
    gs_signal_stop(&signal);
    gs_loop_free(own);
    return unused;
}

TEST(loops_of_two_kernel_threads_stop_watching_the_signal_at_once)
{
    pthread_t thread;
    struct sigaction action;
    CHECK_EQ(pthread_barrier_init(&both_watch, NULL, 2), 0);
    CHECK_EQ(pthread_create(&thread, NULL, stop_with_another, NULL), 0);
    stop_with_another(NULL);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&both_watch);
    CHECK_EQ(sigaction(SIGUSR1, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_DFL);
}

/* ---- Forks at a moment of another kernel thread ---- */

static __thread bool is_raiser;

/* Called within the signal handler, which is about to wake a waiting loop. */
static long stay_in_handler(long number, void *unused)
{
    (void)unused;
    if (number != SYS_write || !is_raiser)
        return 0;
    atomic_store(&has_begun, true);
    while (!atomic_load(&is_finished))
        usleep(100);
    return 0;
}

static void *stay_in_handler_of_own(void *unused)
{
    struct gs_signal signal;
    struct gs_loop *own = start_own(&signal, SIGUSR1);
    gs_loop_try_sleep(own);
    is_raiser = true;
    raise(SIGUSR1);
    gs_loop_end_sleep(own);
    gs_loop_free(own);
    return unused;
}

TEST(fork_while_another_kernel_thread_is_in_the_handler_leaves_no_handler_to_wait_for_in_the_child)
{
    gs_sys_set_fault(stay_in_handler, NULL);
    check_forks_beside(stay_in_handler_of_own);
    gs_sys_set_fault(NULL, NULL);
}

static void *start_and_stop_always(void *unused)
{
    struct gs_signal signal;
    struct gs_loop *own = start_own(&signal, SIGUSR2);
    atomic_store(&has_begun, true);
    while (!atomic_load(&is_finished)) {
        gs_signal_stop(&signal);
        if (gs_signal_start(&signal, SIGUSR2))
            abort();
    }
    gs_loop_free(own);
    return unused;
}

TEST(fork_while_another_kernel_thread_starts_and_stops_a_watcher_leaves_the_lock_free_in_the_child)
{
    check_forks_beside(start_and_stop_always);
}
