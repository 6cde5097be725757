/* The stack of a thread that waits must not be used by others, not even read, if it is shared. */
#include "tests/thread/checked/misuse.h"
#include "thread/context/sanitizer.h"

static volatile char *published;

static void *publish_local(void *unused)
{
    volatile char local[400] = {0};
    local[200] = 7;
    published = &local[200];
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    MUST_EQ(local[200], 7);
    return unused;
}

static struct gs_thread *spawn_waiting(void)
{
    const struct gs_thread_attributes shared = {.name = "sharing", .stack_is_shared = true};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&shared, publish_local, NULL, &thread), 0);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    return thread;
}

static void *keep_promise(void *unused)
{
    for (int i = 0; i < 3; i++) {
        struct gs_thread *thread = spawn_waiting();
        gs_threads_dump(report_out);
        gs_thread_unpark(thread);
        join(thread);
    }
    return unused;
}

__attribute__((noinline)) static char read_published(void)
{
    return *published;
}

static void *break_promise(void *unused)
{
    spawn_waiting();
    MUST_EQ(read_published(), 7);
    return unused;
}

static void run_reported(unsigned workers, gs_thread_fn *first)
{
    const struct gs_threads_options options = {.workers = workers, .report_fd = report_out};
    MUST_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
}

static void run_keeping(void)
{
    run_reported(1, keep_promise);
}

static void run_breaking(void)
{
    run_reported(1, break_promise);
}

TEST(dumps_show_the_calls_of_threads_that_share_stacks)
{
    CHECK_EQ(in_child(run_keeping), 0);
    CHECK_REPORTED("^ +publish_local \\(");
}

/* ---- Dumps of threads that wait and run meanwhile, on other workers ---- */

enum { NAPPERS = 32, NAPS = 30, DUMPS = 60 };

__attribute__((noinline)) static void nap_below(int depth)
{
    if (depth)
        nap_below(depth - 1);
    else
        MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
    __asm__ volatile("");
}

static void *nap(void *unused)
{
    for (int i = 0; i < NAPS; i++)
        nap_below(4);
    return unused;
}

static void *dump_nappers(void *unused)
{
    struct gs_thread *threads[NAPPERS];
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (unsigned i = 0; i < NAPPERS; i++) {
        const struct gs_thread_attributes attributes = {.worker = 2, .stack_is_shared = true};
        MUST_EQ(gs_thread_spawn(&attributes, nap, NULL, &threads[i]), 0);
    }
    for (int i = 0; i < DUMPS; i++)
        gs_threads_dump(null);
    for (int i = 0; i < NAPPERS; i++)
        join(threads[i]);
    close(null);
    return unused;
}

static void run_dumping(void)
{
    run_reported(2, dump_nappers);
}

TEST(dumps_read_no_stack_that_is_inaccessible)
{
    CHECK_EQ(in_child(run_dumping), 0);
}

/* ---- More threads than the kernel allows mappings for ---- */

static struct gs_semaphore semaphore;

static void *return_argument(void *argument)
{
    return argument;
}

static void *take_permit(void *unused)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    return unused;
}

static long max_mappings(void)
{
    long max = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    MUST(file && fscanf(file, "%ld", &max) == 1);
    fclose(file);
    return max;
}

/* Each is in the middle of a mapping that was one before. */
static void *wait_in_many(void *unused)
{
    static const struct gs_thread_attributes shared = {.stack_is_shared = true};
    long count = max_mappings() / 2;
    pthread_t other;
    for (long i = 0; i < count; i++)
        MUST_EQ(gs_thread_spawn(&shared, take_permit, NULL, NULL), 0);
    gs_thread_yield();
    MUST_EQ(pthread_create(&other, NULL, return_argument, NULL), 0);
    MUST_EQ(pthread_join(other, NULL), 0);
    for (long i = 0; i < count; i++)
        gs_semaphore_post(&semaphore);
    return unused;
}

static void run_many(void)
{
    run_reported(1, wait_in_many);
}

TEST(threads_that_wait_leave_mappings_for_the_rest_of_the_program)
{
    enum { MAPPINGS_USUAL = 65530 };
    if (GS_ASAN + GS_TSAN == 0 && !IS_EMULATED && max_mappings() <= MAPPINGS_USUAL)
        CHECK_EQ(in_child(run_many), 0);
}

/* ---- A promise that is not kept ---- */

TEST(reading_the_stack_of_a_thread_that_waits_is_reported_with_both_threads)
{
    if (GS_ASAN || GS_TSAN)
        return; /* variables are on stacks of the sanitizer, which reports the signal itself */
    int status = in_child(run_breaking);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CHECK_REPORTED(
        "^shared stack: thread \"sharing\" waits, and its stack is used by thread \"first\"");
    CHECK_REPORTED("^ +read_published \\(.*\n.*break_promise \\(");
}
