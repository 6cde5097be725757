/* A fork is no misuse, wherever the loop that watches for the dump signal is. */
#include "tests/thread/checked/misuse.h"
#include "tests/thread/schedule/forking.h"

#include <signal.h>
#include <sys/wait.h>

static void *fork_and_wait(void *unused)
{
    int status = -1;
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid)
        return unused;
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

TEST(forking_with_a_signal_for_dumps_is_no_misuse)
{
    skip_without_fork();
    for (unsigned workers = 1; workers < 3; workers++) {
        const struct gs_threads_options options = {.workers = workers, .dump_signal = SIGUSR2};
        CHECK_EQ(gs_threads_run(&options, fork_on_the_last_worker, &workers, NULL), 0);
    }
}
