/* Reports name a thread without a name by the function that it runs. */
#include "tests/thread/report/report.h"

static void *wait_forever(void *unused)
{
    park_below(3);
    return unused;
}

static void *never_starts(void *unused)
{
    return unused;
}

static void dump_and_exit(void)
{
    gs_threads_dump(report_out);
    _exit(0);
}

static void spawn_sharing_stack(gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {.stack_is_shared = true};
    struct gs_thread *thread = NULL;
    MUST_EQ(gs_thread_spawn(&attributes, fn, NULL, &thread), 0);
}

/* Only one of two threads that share a stack is on it. */
THREAD(dump_unnamed)
{
    spawn(wait_forever, NULL);
    for (int i = 0; i < 2; i++)
        spawn_sharing_stack(wait_forever);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    spawn(never_starts, NULL);
    spawn_sharing_stack(never_starts);
    dump_and_exit();
}

static void run_dump(void)
{
    run_reporting(1, dump_unnamed, 0);
}

TEST(dump_has_the_functions_of_threads_without_names)
{
    in_child(run_dump);
    CHECK_REPORTED("^thread 0x[0-9a-f]+ \"first\": runs");
    CHECK_REPORTED("^thread 0x[0-9a-f]+ \"wait_forever\\(\\)\": has waited");
    CHECK_REPORTED("^thread 0x[0-9a-f]+ \"never_starts\\(\\)\": is about to start");
    CHECK(!is_reported("\"\""));
}

static struct gs_thread *joiners[2];
static struct gs_semaphore never;

static void *join_the_other(void *number)
{
    return join(joiners[!number]);
}

THREAD(join_each_other)
{
    joiners[0] = spawn(join_the_other, NULL);
    joiners[1] = spawn(join_the_other, joiners);
    (void)!gs_semaphore_wait(&never, GS_NEVER);
}

static void run_deadlock(void)
{
    run_reporting(1, join_each_other, -EDEADLK);
}

TEST(deadlock_has_the_functions_of_threads_without_names)
{
    in_child(run_deadlock);
    CHECK_REPORTED("^cycle: \"join_the_other\\(\\)\" waits for join of \"join_the_other\\(\\)\"");
}

static void *compute(void *unused)
{
    while (poll(NULL, 0, 1) >= 0)
        ;
    return unused;
}

/* The test ends the process when it has the report. */
THREAD(compute_unnamed)
{
    spawn(compute, NULL);
    spawn(never_starts, NULL);
    gs_thread_yield();
}

static void run_stuck(void)
{
    run_reporting(1, compute_unnamed, 0);
}

TEST(stuck_worker_has_the_function_of_a_thread_without_a_name)
{
    int fds[2];
    if (IS_EMULATED)
        SKIP("the emulator does not let the kernel copy from a thread that may end");
    CHECK_EQ(pipe(fds), 0);
    pid_t child = fork();
    if (!child) {
        report_out = fds[1];
        run_stuck();
        _exit(0);
    }
    close(fds[1]);
    ssize_t n = read(fds[0], report, sizeof report - 1);
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    close(fds[0]);
    CHECK(n > 0);
    report[n] = 0;
    CHECK_REPORTED("^stuck: thread \"compute\\(\\)\" has been ");
}
