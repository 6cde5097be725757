/* Reports, forks and errors while private stacks are given back. */
#include "tests/thread/schedule/forking.h"
#include "tests/thread/stack/stack_away.h"

#include <gossamer/sys.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static struct gs_semaphore semaphore;

static void *park(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

/* ---- Reports ---- */

static void *park_deep(void *unused)
{
    park_below(2);
    return unused;
}

static void run_with_reports(unsigned workers, gs_thread_fn *first)
{
    const struct gs_threads_options options = {
        .workers = workers, .report_fd = report_out, .give_back_ns = GS_MILLISECOND};
    int err = gs_threads_run(&options, first, NULL, NULL);
    MUST(!err || err == -EDEADLK);
}

static void *dump(void *unused)
{
    struct gs_thread *threads[] = {spawn_as(&private, park_deep, NULL),
                                   spawn_as(&mobile, park_deep, NULL)};
    wait_until_away(2);
    gs_threads_dump(report_out);
    MUST_EQ(stats_now().away, 2);
    for (int i = 0; i < 2; i++) {
        gs_thread_unpark(threads[i]);
        join(threads[i]);
    }
    return unused;
}

static void dump_with_one(void)
{
    run_with_reports(1, dump);
}

static void dump_with_several(void)
{
    run_with_reports(3, dump);
}

TEST(dump_shows_the_calls_of_threads_whose_stacks_are_away)
{
    skip_if_emulated();
    void (*const runs[])(void) = {dump_with_one, dump_with_several};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(in_child(runs[i]), 0);
        CHECK_REPORTED("2 threads|\"private\"");
        CHECK_REPORTED(
            "^ +park_below \\(.*\n +park_below \\(.*\n +park_below \\(.*\n +park_deep \\(");
    }
}

static void *wait_for_ever(void *unused)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    return unused;
}

/* A thread that sleeps is no deadlock; when it ends, the other's stack is away. */
static void *leave_alone(void *unused)
{
    semaphore = (struct gs_semaphore){.count = 0};
    spawn_as(&private, wait_for_ever, NULL);
    wait_until_away(1);
    return unused;
}

static void deadlock(void)
{
    run_with_reports(1, leave_alone);
    MUST_EQ(stats_now().away, 0);
    run_with_reports(1, leave_alone);
}

TEST(deadlock_report_shows_the_calls_of_a_thread_whose_stack_is_away)
{
    CHECK_EQ(in_child(deadlock), 0);
    CHECK_REPORTED("\"private\".*\n(.*\n)?.*wait_for_ever \\(");
}

static volatile char *published;

static void *publish_local(void *unused)
{
    char local[400] = {0};
    published = &local[200];
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

static void *break_promise(void *unused)
{
    struct gs_thread *thread = spawn_as(&private, publish_local, NULL);
    wait_until_away(1);
    *published = 1;
    gs_thread_unpark(thread);
    join(thread);
    return unused;
}

static void run_breaking_promise(void)
{
    run_with_reports(1, break_promise);
}

TEST(promise_that_was_broken_is_reported_with_the_name_of_the_thread)
{
    if (GS_ASAN)
        return; /* it keeps arrays on stacks of its own */
    int status = in_child(run_breaking_promise);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status));
    CHECK_REPORTED("^stack not private: the stack of thread \"private\" ");
}

/* ---- Fork, and memory that cannot be given back ---- */

static atomic_bool is_exhausted;
static atomic_uint refused_count;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

void *__wrap_malloc(size_t n)
{
    if (!atomic_load(&is_exhausted))
        return __real_malloc(n);
    atomic_fetch_add(&refused_count, 1);
    return NULL;
}

static void *wait_without_memory(void *unused)
{
    struct gs_thread *thread = spawn_as(&private, park, NULL);
    gs_thread_yield();
    is_exhausted = true;
    while (refused_count < 3)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    MUST_EQ(stats_now().away, 0);
    is_exhausted = false;
    wait_until_away(1);
    gs_thread_unpark(thread);
    join(thread);
    return unused;
}

static void run_without_memory(void)
{
    run_with_reports(1, wait_without_memory);
}

TEST(stack_for_which_there_is_no_memory_is_given_back_when_there_is_some_again)
{
    skip_if_emulated();
    CHECK_EQ(in_child(run_without_memory), 0);
}

static void *fork_while_away(void *unused)
{
    int status = 0;
    struct gs_thread *thread = spawn_as(&private, park, NULL);
    wait_until_away(1);
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        MUST_EQ(stats_now().away, 0);
        thread = spawn_as(&private, park, NULL);
        wait_until_away(1);
        gs_thread_unpark(thread);
        join(thread);
        _exit(7);
    }
    MUST_EQ(waitpid(pid, &status, 0), pid);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    MUST_EQ(stats_now().away, 1);
    gs_thread_unpark(thread);
    join(thread);
    return unused;
}

TEST(child_has_no_stacks_that_are_away_and_gives_its_own_back)
{
    if (GS_TSAN || IS_EMULATED || IS_GCC_ASAN)
        return; /* for the reasons in forking.h */
    run_giving_back_both(fork_while_away);
}

/* As where memory is locked. */
static long refuse(long number, void *is_asked)
{
    bool is_refused = number == SYS_process_madvise || number == SYS_madvise;
    atomic_store((atomic_bool *)is_asked, is_refused || atomic_load((atomic_bool *)is_asked));
    return is_refused ? -EINVAL : 0;
}

static void *wait_while_refused(void *unused)
{
    static atomic_bool is_asked;
    struct gs_thread *thread = spawn_as(&private, park, NULL);
    gs_thread_yield();
    gs_sys_set_fault(refuse, &is_asked);
    while (!atomic_load(&is_asked) || stats_now().away)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    gs_sys_set_fault(NULL, NULL);
    gs_thread_unpark(thread);
    join(thread);
    return unused;
}

static void run_refused(void)
{
    run_with_reports(1, wait_while_refused);
}

TEST(stack_stays_if_the_kernel_refuses_to_take_its_memory)
{
    CHECK_EQ(in_child(run_refused), 0);
}

static void *come_back_without_populating(void *unused)
{
    static atomic_bool is_asked;
    struct gs_thread *thread = spawn_as(&private, park_deep, NULL);
    wait_until_away(1);
    gs_sys_set_fault(refuse, &is_asked);
    gs_thread_unpark(thread);
    join(thread);
    gs_sys_set_fault(NULL, NULL);
    MUST(atomic_load(&is_asked));
    return unused;
}

static void run_without_populating(void)
{
    run_with_reports(1, come_back_without_populating);
}

TEST(stack_comes_back_by_faults_if_the_kernel_refuses_to_populate_it)
{
    skip_if_emulated();
    CHECK_EQ(in_child(run_without_populating), 0);
}
