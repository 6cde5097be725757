/* An overflow of a stack of an exact size is reported when it happens: it has a guarded page. */
#include "tests/thread/checked/misuse.h"
#include "thread/sanitizer.h"

__attribute__((noinline)) static void write_below(size_t size)
{
    volatile char *bytes = __builtin_alloca(size);
    for (size_t i = size; i--;)
        bytes[i] = 1;
}

static void *write_too_much(void *unused)
{
    write_below(4096);
    fprintf(stderr, "it was not noticed\n");
    _exit(0);
    return unused;
}

static void *use_most(void *unused)
{
    write_below(1024);
    gs_thread_yield();
    return unused;
}

static void *run_one(void *fn)
{
    const struct gs_thread_attributes exact = {
        .name = "exact", .stack_size = 4096, .stack_is_exact = true};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&exact, *(gs_thread_fn **)fn, NULL, &thread), 0);
    join(thread);
    return fn;
}

static void run_with_fn(gs_thread_fn *fn)
{
    const struct gs_threads_options options = {.workers = 1, .report_fd = report_out};
    MUST_EQ(gs_threads_run(&options, run_one, &fn, NULL), 0);
}

static void run_using_most(void)
{
    run_with_fn(use_most);
}

static void run_overflowing(void)
{
    run_with_fn(write_too_much);
}

TEST(stack_of_an_exact_size_can_be_used)
{
    CHECK_EQ(in_child(run_using_most), 0);
}

TEST(overflow_of_an_exact_size_is_reported_with_the_calls_when_it_happens)
{
    if (GS_ASAN || GS_TSAN)
        return; /* their stacks have other sizes */
    if (IS_EMULATED)
        SKIP("the emulator has too few addresses for stacks of exact sizes");
    int status = in_child(run_overflowing);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CHECK_REPORTED("^stack overflow: thread \"exact\" needs more than its 4096 bytes");
    CHECK_REPORTED("^ +write_below \\(");
}
