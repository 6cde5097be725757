/* A fork is no misuse, wherever the loop that watches for the dump signal is. */
#include "tests/thread/checked/misuse.h"
#include "tests/thread/schedule/forking.h"

static void *fork_and_wait(void *unused)
{
    int status = -1;
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        gs_thread_yield();
        return unused;
    }
    MUST_EQ(gs_sys_wait4(pid, &status, 0), pid);
    MUST_EQ(status, 0);
    return unused;
}

static void *fork_on_the_last_worker(void *workers)
{
    const struct gs_thread_attributes last = {.worker = *(unsigned *)workers};
    struct gs_thread *forking;
    MUST_EQ(gs_thread_spawn(&last, fork_and_wait, NULL, &forking), 0);
    join(forking);
    return NULL;
}

/* ---- While the other worker protects the stacks of threads that wait ---- */

enum { FORKS = 20, YIELDERS = 4 };

static atomic_bool is_over;

static void *yield_often(void *unused)
{
    while (!atomic_load(&is_over))
        gs_thread_yield();
    return unused;
}

static void *fork_beside_switches(void *unused)
{
    const struct gs_thread_attributes shared = {.worker = 2, .stack_is_shared = true},
                                      sharing_first = {.worker = 1, .stack_is_shared = true};
    struct gs_thread *threads[YIELDERS];
    for (int i = 0; i < YIELDERS; i++)
        MUST_EQ(gs_thread_spawn(&shared, yield_often, NULL, &threads[i]), 0);
    for (int i = 0; i < FORKS; i++) {
        struct gs_thread *forking;
        MUST_EQ(gs_thread_spawn(&sharing_first, fork_and_wait, NULL, &forking), 0);
        join(forking);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < YIELDERS; i++)
        join(threads[i]);
    return unused;
}

static void run_beside_switches(void)
{
    const struct gs_threads_options options = {.workers = 2};
    alarm(30);
    MUST_EQ(gs_threads_run(&options, fork_beside_switches, NULL, NULL), 0);
}

TEST(child_can_switch_whatever_other_workers_did_at_the_fork)
{
    skip_without_fork();
    CHECK_EQ(in_child(run_beside_switches), 0);
}

/* ---- With a signal for dumps ---- */

TEST(forking_with_a_signal_for_dumps_is_no_misuse)
{
    skip_without_fork();
    for (unsigned workers = 1; workers < 3; workers++) {
        const struct gs_threads_options options = {.workers = workers, .dump_signal = SIGUSR2};
        CHECK_EQ(gs_threads_run(&options, fork_on_the_last_worker, &workers, NULL), 0);
    }
}
