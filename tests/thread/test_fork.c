#include "tests/thread/fixture.h"
#include "thread/sanitizer.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static int status_of(pid_t pid)
{
    int status = -1;
    MUST(pid > 0);
    MUST_EQ(gs_sys_wait4(pid, &status, 0), pid);
    return status;
}

static void *sleep_long(void *unused)
{
    gs_thread_sleep(after(3600 * GS_SECOND));
    return unused;
}

static void *send_through(void *argument)
{
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    MUST_EQ(gs_send_all(*(int *)argument, "word", 4, GS_NEVER), 4);
    return NULL;
}

static void add_one(void *argument)
{
    ++*(int *)argument;
}

/* All that a runtime is for: threads, deadlines, I/O, calls that block. */
static void use_everything(void)
{
    struct gs_thread *threads[20];
    char bytes[8];
    int fds[2], number = 1;
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    MUST_EQ(gs_recv(fds[0], bytes, 8, 0, after(2 * GS_MILLISECOND)), -ETIMEDOUT);
    threads[0] = spawn(send_through, &fds[1]);
    MUST_EQ(gs_recv(fds[0], bytes, 8, 0, GS_NEVER), 4);
    join(threads[0]);
    for (int i = 0; i < 20; i++)
        threads[i] = spawn(sleep_long, NULL);
    gs_thread_yield();
    for (int i = 0; i < 20; i++)
        gs_thread_cancel(threads[i]);
    for (int i = 0; i < 20; i++)
        join(threads[i]);
    MUST_EQ(gs_run_blocking(add_one, &number, GS_NEVER), 0);
    MUST_EQ(number, 2);
    MUST_EQ(gs_close(fds[0]), 0);
    MUST_EQ(gs_close(fds[1]), 0);
}

static void *fork_and_exec(void *unused)
{
    static char *const arguments[] = {"true", NULL};
    pid_t pid = fork();
    if (!pid) {
        execv("/bin/true", arguments);
        _exit(1);
    }
    MUST_EQ(status_of(pid), 0);
    use_everything();
    return unused;
}

TEST(plain_fork_is_safe_for_a_child_that_execs)
{
    run_both(fork_and_exec);
}

static int inherited[2];

static void *wait_for_word(void *unused)
{
    char bytes[8];
    MUST_EQ(gs_recv(inherited[0], bytes, 8, 0, GS_NEVER), 4);
    return unused;
}

/* The others wait in all manners; the child knows nothing of them, and can use the numbers of what they waited for. */
static void *fork_among_others(void *argument)
{
    struct gs_threads_counts counts;
    struct gs_thread *threads[9], *reader;
    for (int i = 0; i < 9; i++)
        threads[i] = spawn(sleep_long, NULL);
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, inherited), 0);
    reader = spawn(wait_for_word, NULL);
    use_everything();
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        gs_threads_counts(&counts);
        MUST_EQ(counts.live, 1);
        use_everything();
        /* The parent's reader would read what is sent through that: so another, under the same numbers. */
        MUST_EQ(gs_close(inherited[0]), 0);
        MUST_EQ(gs_close(inherited[1]), 0);
        MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, inherited), 0);
        reader = spawn(wait_for_word, NULL);
        gs_thread_yield();
        MUST_EQ(gs_send_all(inherited[1], "word", 4, GS_NEVER), 4);
        join(reader);
        _exit(7);
    }
    int status = status_of(pid);
    MUST(WIFEXITED(status));
    MUST_EQ(WEXITSTATUS(status), 7);
    use_everything();
    MUST_EQ(gs_send_all(inherited[1], "word", 4, GS_NEVER), 4);
    join(reader);
    for (int i = 0; i < 9; i++)
        gs_thread_cancel(threads[i]);
    for (int i = 0; i < 9; i++)
        join(threads[i]);
    gs_close(inherited[0]);
    gs_close(inherited[1]);
    return argument;
}

TEST(child_has_the_calling_thread_only_and_a_working_runtime)
{
#ifdef GS_EMULATED
    SKIP("the emulator does not survive a fork among several kernel threads");
#endif
    if (GS_TSAN)
        SKIP("the thread sanitizer does not follow user threads into a child");
    run_both(fork_among_others);
}

static bool is_child;

static void *fork_and_return(void *unused)
{
    pid_t pid = gs_fork();
    is_child = !pid;
    if (!is_child)
        return (void *)(intptr_t)status_of(pid);
    struct gs_thread *other = spawn(sleep_long, NULL);
    gs_thread_cancel(other);
    join(other);
    return unused;
}

TEST(run_returns_in_the_child_too_when_its_threads_have_ended)
{
    const struct gs_threads_options options = {.workers = 2};
    void *result = &result;
    int err = gs_threads_run(&options, fork_and_return, NULL, &result);
    if (is_child)
        _exit(err || result ? 1 : 5);
    CHECK_EQ(err, 0);
    CHECK(WIFEXITED((int)(intptr_t)result));
    CHECK_EQ(WEXITSTATUS((int)(intptr_t)result), 5);
}

static void *fork_elsewhere(void *unused)
{
    sigset_t blocked;
    pid_t pid = gs_fork();
    if (pid)
        return (void *)(intptr_t)status_of(pid);
    MUST_EQ(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    MUST(!sigismember(&blocked, SIGTERM));
    use_everything();
    return unused;
}

static void *fork_on_second(void *unused)
{
    const struct gs_thread_attributes attributes = {.worker = 2};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, fork_elsewhere, NULL, &thread), 0);
    MUST_EQ((intptr_t)join(thread), 0);
    return unused;
}

TEST(child_of_another_worker_exits_when_its_threads_have_ended)
{
    run_with(2, fork_on_second);
}
