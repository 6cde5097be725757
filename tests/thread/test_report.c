#include "tests/thread/fixture.h"

#include <signal.h>
#include <sys/wait.h>

static char report[65536];
static struct gs_mutex a, b;
static int out;

/* Run `fn` in a child, with what it reports in `report`. Returns its wait status. */
static int in_child(void (*fn)(int fd))
{
    int fds[2], status;
    size_t n = 0;
    ssize_t some;
    CHECK_EQ(pipe(fds), 0);
    pid_t pid = fork();
    if (!pid) {
        fn(fds[1]);
        _exit(0);
    }
    close(fds[1]);
    while ((some = read(fds[0], report + n, sizeof report - 1 - n)) > 0)
        n += (size_t)some;
    report[n] = 0;
    close(fds[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

static void run_reporting(int fd, unsigned workers, gs_thread_fn *first, int expected)
{
    const struct gs_threads_options options = {
        .workers = workers, .report_fd = fd, .dump_signal = SIGUSR2};
    out = fd;
    if (gs_threads_run(&options, first, NULL, NULL) != expected)
        _exit(3);
}

static struct gs_thread *spawn_named(const char *name, gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {.name = name};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, fn, NULL, &thread), 0);
    return thread;
}

static void *lock_ab(void *unused)
{
    (void)unused;
    gs_mutex_lock(&a, GS_NEVER);
    MUST_EQ(gs_thread_sleep(after(5 * GS_MILLISECOND)), 0);
    gs_mutex_lock(&b, GS_NEVER);
    return NULL;
}

static void *lock_ba(void *unused)
{
    (void)unused;
    gs_mutex_lock(&b, GS_NEVER);
    MUST_EQ(gs_thread_sleep(after(5 * GS_MILLISECOND)), 0);
    gs_mutex_lock(&a, GS_NEVER);
    return NULL;
}

static void *embrace(void *unused)
{
    (void)unused;
    struct gs_thread *left = spawn_named("left", lock_ab);
    spawn_named("right", lock_ba);
    join(left);
    return NULL;
}

static void deadlock_one(int fd)
{
    run_reporting(fd, 1, embrace, -EDEADLK);
}

static void deadlock_three(int fd)
{
    run_reporting(fd, 3, embrace, -EDEADLK);
}

static void check_deadlock(void (*fn)(int fd))
{
    CHECK_EQ(in_child(fn), 0);
    CHECK(strstr(report, "deadlock: no thread can go on"));
    CHECK(strstr(report, "cycle:"));
    CHECK(strstr(report, "\"left\" waits for mutex of \"right\""));
    CHECK(strstr(report, "\"right\" waits for mutex of \"left\""));
    CHECK(strstr(report, "\"first\": waits for join"));
}

TEST(deadlock_is_reported_with_its_cycle)
{
    check_deadlock(deadlock_one);
    check_deadlock(deadlock_three);
}

static void *do_nothing(void *unused)
{
    return unused;
}

static void deadlock_then_run(int fd)
{
    run_reporting(fd, 1, embrace, -EDEADLK);
    run_reporting(fd, 1, do_nothing, 0);
}

TEST(threads_can_be_run_again_after_a_deadlock)
{
    CHECK_EQ(in_child(deadlock_then_run), 0);
}

__attribute__((noinline)) static int recurse(volatile char *above)
{
    volatile char bytes[512];
    bytes[0] = *above;
    if (!bytes[0])
        return 0;
    bytes[511] = (char)(recurse(bytes) + bytes[0]);
    return bytes[511];
}

static void *overflow(void *unused)
{
    char start = 1;
    (void)unused;
    return (void *)(intptr_t)recurse(&start);
}

static void *start_overflow(void *unused)
{
    (void)unused;
    join(spawn_named("glutton", overflow));
    return NULL;
}

static void overflow_stack(int fd)
{
    run_reporting(fd, 1, start_overflow, 0);
}

TEST(stack_overflow_is_reported_and_then_is_the_usual_signal)
{
    int status = in_child(overflow_stack);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) != 3);
    CHECK(strstr(report, "stack overflow: thread \"glutton\" needs more than its"));
}

static void *park_here(void *unused)
{
    (void)unused;
    MUST_EQ(gs_thread_park(after(20 * GS_SECOND)), 0);
    return NULL;
}

static void *dump(void *unused)
{
    (void)unused;
    struct gs_thread *thread = spawn_named("sleeper", park_here);
    gs_thread_yield();
    gs_threads_dump(out);
    gs_thread_unpark(thread);
    join(thread);
    return NULL;
}

static void dump_by_call(int fd)
{
    run_reporting(fd, 1, dump, 0);
}

TEST(dump_names_what_each_thread_waits_for)
{
    CHECK_EQ(in_child(dump_by_call), 0);
    CHECK(strstr(report, "\"sleeper\": waits for park"));
    CHECK(strstr(report, "\"first\": runs"));
    CHECK(strstr(report, "bytes of stack"));
    CHECK(strstr(report, "test_thread_report+0x") || strstr(report, "(test_thread_report"));
}

static void *signal_itself(void *unused)
{
    (void)unused;
    kill(getpid(), SIGUSR2);
    MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
    return NULL;
}

static void dump_by_signal(int fd)
{
    run_reporting(fd, 2, signal_itself, 0);
}

TEST(dump_comes_by_signal)
{
    CHECK_EQ(in_child(dump_by_signal), 0);
    CHECK(strstr(report, "thread "));
    CHECK(strstr(report, "\"first\":"));
}

static void *say_guard(void *unused)
{
    (void)unused;
    join(spawn(do_nothing, NULL));
    MUST_EQ(write(out, gs_threads_guard(), strlen(gs_threads_guard())),
            (ssize_t)strlen(gs_threads_guard()));
    join(spawn_named("glutton", overflow));
    return NULL;
}

static void without_regions(int fd)
{
    setenv("GOSSAMER_NO_GUARD_REGIONS", "1", 1);
    run_reporting(fd, 1, say_guard, 0);
}

TEST(kernels_without_guard_regions_guard_by_protection)
{
    int status = in_child(without_regions);
    CHECK(strstr(report, "mprotect"));
    CHECK(strstr(report, "stack overflow: thread \"glutton\""));
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status));
}
