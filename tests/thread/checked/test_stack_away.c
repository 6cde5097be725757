/* A private stack that is given back must not be used by others, not even read. */
#include "tests/thread/checked/misuse.h"
#include "thread/context/sanitizer.h"

#include <fcntl.h>

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

static struct gs_thread *spawn_until_away(void)
{
    const struct gs_thread_attributes private = {.name = "private", .stack_is_shared = true};
    struct gs_threads_stats stats;
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&private, publish_local, NULL, &thread), 0);
    do {
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        gs_threads_stats(&stats);
    } while (!stats.away);
    return thread;
}

static void *keep_promise(void *unused)
{
    for (int i = 0; i < 3; i++) {
        struct gs_thread *thread = spawn_until_away();
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

enum { WITHOUT_REGIONS = 77 };

static void *break_promise(void *unused)
{
    spawn_until_away();
    if (strcmp(gs_threads_stack_guard(), "regions") != 0)
        _exit(WITHOUT_REGIONS);
    MUST_EQ(read_published(), 7);
    return unused;
}

static void run_giving_back(unsigned workers, gs_thread_fn *first)
{
    const struct gs_threads_options options = {
        .workers = workers, .report_fd = report_out, .give_back_ns = GS_MILLISECOND};
    MUST_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
}

static void run_keeping(void)
{
    run_giving_back(1, keep_promise);
}

static void run_breaking(void)
{
    run_giving_back(1, break_promise);
}

TEST(stack_comes_back_and_dumps_show_it_while_it_is_away)
{
    if (IS_EMULATED)
        SKIP("an emulator may keep memory that is given back");
    CHECK_EQ(in_child(run_keeping), 0);
    CHECK_REPORTED("^ +publish_local \\(");
}

/* ---- Dumps of threads whose stacks go away meanwhile, on other workers ---- */

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
    run_giving_back(2, dump_nappers);
}

TEST(dumps_read_no_stack_that_goes_away)
{
    if (IS_EMULATED)
        SKIP("an emulator may keep memory that is given back");
    CHECK_EQ(in_child(run_dumping), 0);
}

/* ---- A promise that is not kept ---- */

TEST(reading_a_stack_that_is_given_back_is_reported_with_the_calls)
{
    if (GS_ASAN || GS_TSAN)
        return; /* variables are on stacks of the sanitizer, which reports the signal itself */
    int status = in_child(run_breaking);
    if (status == WITHOUT_REGIONS << 8) {
        printf("not tested: this kernel has no guard regions, by which reading is noticed\n");
        return;
    }
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CHECK_REPORTED("^stack not private: the stack of thread \"private\" is used by another");
    CHECK_REPORTED("^ +read_published \\(.*\n.*break_promise \\(");
}
