/* Reports, forks and errors while threads are evicted from the stacks that they share. */
#include "tests/thread/schedule/forking.h"
#include "tests/thread/stack/shared.h"

#include <stdatomic.h>
#include <stdlib.h>

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

static struct gs_thread *spawn_evicted(unsigned worker, gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {
        .name = "shared", .worker = worker, .stack_is_shared = true};
    struct gs_thread *thread = spawn_as(&attributes, fn, NULL);
    while (!thread_is_waiting(thread))
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    take_stack(worker);
    MUST_EQ(thread_is_evicted(thread), gs_stacks_can_be_shared());
    return thread;
}

static void *dump(void *unused)
{
    unsigned last = gs_runtime.options.workers;
    struct gs_thread *threads[] = {spawn_evicted(1, park_deep), spawn_evicted(last, park_deep)};
    gs_threads_dump(report_out);
    for (int i = 0; i < 2; i++) {
        gs_thread_unpark(threads[i]);
        join(threads[i]);
    }
    return unused;
}

static void dump_with_one(void)
{
    run_sharing(1, 1, dump);
}

static void dump_with_several(void)
{
    run_sharing(3, 1, dump);
}

TEST(dump_shows_the_calls_of_threads_that_are_evicted)
{
    void (*const runs[])(void) = {dump_with_one, dump_with_several};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(in_child(runs[i]), 0);
        CHECK_REPORTED("2 threads|\"shared\"");
        CHECK_REPORTED(
            "^ +park_below \\(.*\n +park_below \\(.*\n +park_below \\(.*\n +park_deep \\(");
    }
}

static void *wait_for_ever(void *unused)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    return unused;
}

static void *leave_alone(void *unused)
{
    semaphore = (struct gs_semaphore){.count = 0};
    spawn_evicted(1, wait_for_ever);
    return unused;
}

static void deadlock(void)
{
    run_sharing(1, 1, leave_alone);
    run_sharing(2, 1, leave_alone);
}

TEST(deadlock_report_shows_the_calls_of_a_thread_that_is_evicted)
{
    CHECK_EQ(in_child(deadlock), 0);
    CHECK_REPORTED(
        "\"shared\".*\n(.*\n)?.*wait_for_ever \\((.|\n)*\"shared\".*\n(.*\n)?.*wait_for_ever \\(");
}

/* ---- Fork, and no memory ---- */

static atomic_bool is_exhausted;
static atomic_uint refused_count;

void *__real_gs_saved_block_new(struct saved_blocks *blocks, size_t size);
void *__wrap_gs_saved_block_new(struct saved_blocks *blocks, size_t size);

void *__wrap_gs_saved_block_new(struct saved_blocks *blocks, size_t size)
{
    if (!atomic_load(&is_exhausted))
        return __real_gs_saved_block_new(blocks, size);
    atomic_fetch_add(&refused_count, 1);
    return NULL;
}

/* The second cannot start as long as the first cannot be evicted; others run meanwhile. */
static void *evict_without_memory(void *unused)
{
    struct gs_thread *first = spawn_as(&shared, park, NULL);
    gs_thread_yield();
    is_exhausted = true;
    struct gs_thread *second = spawn_as(&shared, park, NULL);
    while (refused_count < 3)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    MUST(!thread_is_evicted(first) && !thread_is_waiting(second));
    is_exhausted = false;
    gs_thread_unpark(second);
    join(second);
    gs_thread_unpark(first);
    join(first);
    return unused;
}

static void run_without_memory(void)
{
    run_sharing(1, 1, evict_without_memory);
}

TEST(thread_that_cannot_be_evicted_for_lack_of_memory_delays_the_other)
{
    if (gs_stacks_can_be_shared())
        CHECK_EQ(in_child(run_without_memory), 0);
}

static int wait_for_child(pid_t pid)
{
    int status = 0;
    MUST_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *fork_in_shared(void *waiting)
{
    long local = 42;
    long *volatile at = &local;
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        struct gs_thread *thread = spawn_evicted(0, park);
        gs_thread_unpark(thread);
        join(thread);
        MUST_EQ(*at, 42);
        _exit(7);
    }
    MUST_EQ(wait_for_child(pid), 7);
    return waiting;
}

static void *fork_while_evicted(void *unused)
{
    struct gs_thread *waiting = spawn_evicted(1, park);
    fork_in_shared(waiting);
    join(spawn_as(&shared, fork_in_shared, waiting));
    gs_thread_unpark(waiting);
    join(waiting);
    return unused;
}

TEST(child_of_a_fork_has_its_thread_alone_on_the_shared_stacks)
{
    if (GS_TSAN || IS_EMULATED || IS_GCC_ASAN)
        return; /* for the reasons in forking.h */
    run_sharing(1, 1, fork_while_evicted);
    run_sharing(3, 1, fork_while_evicted);
}

static struct gs_semaphore may_fork;

static void before_fork(void)
{
    MUST_EQ(gs_semaphore_wait(&may_fork, GS_NEVER), 0);
}

static void *fork_and_return(void *unused)
{
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid)
        _exit(stats_now().spawned == 1 ? 7 : 1);
    MUST_EQ(wait_for_child(pid), 7);
    return unused;
}

/* When the first forks, the frames of the second are not on the stack. */
static void *fork_while_delayed(void *unused)
{
    struct gs_thread *threads[2];
    for (int i = 0; i < 2; i++) {
        threads[i] = spawn_as(&shared, fork_and_return, NULL);
        gs_thread_yield();
    }
    for (int i = 0; i < 2; i++) {
        gs_semaphore_post(&may_fork);
        join(threads[i]);
    }
    return unused;
}

static void run_delayed(void)
{
    alarm(20);
    MUST_EQ(pthread_atfork(before_fork, NULL, NULL), 0);
    run_sharing(1, 1, fork_while_delayed);
}

TEST(thread_can_be_evicted_while_a_handler_of_its_fork_waits)
{
    skip_without_fork();
    CHECK_EQ(in_child(run_delayed), 0);
}
