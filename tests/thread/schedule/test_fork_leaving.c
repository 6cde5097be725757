/* A child that leaves the run, and is a process with one kernel thread then. */
#include "tests/thread/schedule/forking.h"
#include "thread/stack/stacks.h"

enum { OTHERS = 9, IN_CHILD = 7 };

static long fork_plainly(void *forks)
{
    ++*(int *)forks;
    pid_t pid = fork();
    return pid < 0 ? -errno : pid;
}

static long fail_to_fork(void *unused)
{
    (void)unused;
    return -EAGAIN;
}

static void *sleep_long(void *unused)
{
    gs_thread_sleep(after(3600 * GS_SECOND));
    return unused;
}

static void *return_at_once(void *unused)
{
    return unused;
}

static void *add_one(void *number)
{
    ++*(int *)number;
    return number;
}

static void *run_again(void *number)
{
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    join(spawn(add_one, number));
    return NULL;
}

/* The child is on the thread's stack. It can have kernel threads and other runs, whose threads do
 * not get that stack, but those of the threads that have ended. */
_Noreturn static void be_child(void)
{
    const struct gs_threads_options one = {.workers = 1}, two = {.workers = 2};
    pthread_t thread;
    size_t stacks = gs_stacks_count();
    int number = 0;
    alarm(60);
    MUST_EQ(pthread_create(&thread, NULL, add_one, &number), 0);
    MUST_EQ(pthread_join(thread, NULL), 0);
    MUST_EQ(gs_threads_run(&one, run_again, &number, NULL), 0);
    MUST_EQ(gs_stacks_count(), stacks);
    MUST_EQ(gs_threads_run(&two, run_again, &number, NULL), 0);
    _exit(number == 3 ? IN_CHILD : 1);
}

static void check_child(int *forks)
{
    int status = -1;
    long pid = gs_fork_leaving(fork_plainly, forks);
    MUST(pid >= 0);
    if (!pid)
        be_child();
    MUST_EQ(gs_sys_wait4((pid_t)pid, &status, 0), pid);
    MUST(WIFEXITED(status));
    MUST_EQ(WEXITSTATUS(status), IN_CHILD);
}

THREAD(fork_among_others)
{
    struct gs_thread *threads[OTHERS], *ended[OTHERS];
    int forks = 0, number = 0;
    for (int i = 0; i < OTHERS; i++)
        ended[i] = spawn(return_at_once, NULL);
    for (int i = 0; i < OTHERS; i++)
        threads[i] = spawn(sleep_long, NULL);
    for (int i = 0; i < OTHERS; i++)
        join(ended[i]);
    for (int i = 1; i <= 3; i++) {
        check_child(&forks);
        MUST_EQ(forks, i);
    }
    for (int i = 0; i < OTHERS; i++)
        gs_thread_cancel(threads[i]);
    for (int i = 0; i < OTHERS; i++)
        join(threads[i]);
    join(spawn(add_one, &number));
    MUST_EQ(number, 1);
}

TEST(child_that_leaves_the_run_has_one_kernel_thread_and_may_start_another_run)
{
    skip_without_fork();
    run_both(fork_among_others);
}

THREAD_TEST(failed_fork_is_reported_and_the_run_goes_on, run_both)
{
    int number = 0;
    MUST_EQ(gs_fork_leaving(fail_to_fork, NULL), -EAGAIN);
    join(spawn(add_one, &number));
    MUST_EQ(number, 1);
}
