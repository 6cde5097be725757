#include "tests/thread/stack/overflow.h"
#include "thread/stack/shared_stack.h"

static unsigned *depth; /* in memory shared with the child */

__attribute__((noinline)) static int recurse(volatile char *above)
{
    volatile char bytes[512];
    bytes[0] = *above;
    if (!bytes[0])
        return 0;
    ++*depth;
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
    *depth = 0;
    join(spawn_named("glutton", overflow, NULL));
    return unused;
}

static void overflow_one(void)
{
    run_reporting(1, start_overflow, 0);
}

static void overflow_three(void)
{
    run_reporting(3, start_overflow, 0);
}

static void share_depth(void)
{
    depth = mmap(NULL, sizeof *depth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(depth != MAP_FAILED);
}

static void check_overflow(void (*fn)(void))
{
    unsigned deep = 0;
    CHECK(is_segv(in_child(fn)));
    CHECK_REPORTED("^stack overflow: thread \"glutton\" needs more than its [0-9]+ bytes$");
    CHECK_REPORTED("^  in [^ ]+.*, [0-9]+ calls deep$");
    CHECK_REPORTED("^ +recurse \\(test_thread_overflow\\+0x[0-9a-f]+\\)$");
    CHECK_REPORTED("^ +\\.\\.\\. [0-9]+ more$");
    CHECK_REPORTED("^ +overflow \\(");
    CHECK_EQ(sscanf(strstr(report, ", ") + 2, "%u calls", &deep), 1);
    CHECK(deep + 2 > *depth && deep < *depth + 18);
}

TEST(stack_overflow_is_reported_with_function_and_depth_and_then_is_the_usual_signal)
{
    share_depth();
    check_overflow(overflow_one);
    check_overflow(overflow_three);
}

TEST(kernels_without_guard_regions_guard_by_protection)
{
    share_depth();
    setenv("GOSSAMER_NO_GUARD_REGIONS", "1", 1);
    check_overflow(overflow_one);
    CHECK_STR(gs_threads_stack_guard(), "none yet");
}

/* ---- Large frames ---- */

static size_t beyond; /* bytes by which the frame is larger than the stack */

/* Touch only the lowest byte of a frame, as a function does that fills its buffer later. */
NOT_FOR_ASAN static void *use_large_frame(void *unused)
{
    const struct gs_thread *self = gs_thread_self();
    volatile char *bytes =
        __builtin_alloca((size_t)(self->stack_top - gs_stack_bottom(self)) + beyond);
    bytes[0] = 1;
    return bytes[0] ? unused : NULL;
}

static void *call_with_large_frame(void *unused)
{
    join(spawn_named("glutton", use_large_frame, NULL));
    return unused;
}

static void overflow_by_frame(void)
{
    run_reporting(1, call_with_large_frame, 0);
}

TEST(frame_that_ends_in_the_guard_is_reported)
{
    for (beyond = 0; beyond <= 60 << 10; beyond += 10 << 10) {
        CHECK(is_segv(in_child(overflow_by_frame)));
        CHECK_REPORTED("^stack overflow: thread \"glutton\" needs more than its [0-9]+ bytes$");
        CHECK_REPORTED("^  in use_large_frame ");
    }
}

TEST(frame_that_reaches_unmapped_memory_is_reported)
{
    beyond = 3 << 20;
    CHECK(is_segv(in_child(overflow_by_frame)));
    CHECK_REPORTED("^stack overflow: thread \"glutton\" needs more than its [0-9]+ bytes$");
}

/* ---- With a canary ---- */

/* The last call of mprotect before the first thread runs belongs to its guard. */
static int mprotect_calls, guard_call;

static long fail_guard(long number, void *unused)
{
    (void)unused;
    return number == SYS_mprotect && ++mprotect_calls == guard_call ? -ENOMEM : 0;
}

static void *exit_with_calls(void *unused)
{
    (void)unused;
    _exit(mprotect_calls);
}

static void count_calls(void)
{
    gs_sys_set_fault(fail_guard, NULL);
    run_reporting(1, exit_with_calls, 0);
}

/* Its frame extends beyond the end of the stack, and is written completely. */
NOT_FOR_ASAN __attribute__((noinline)) static int overwrite_end(void)
{
    volatile char bytes[2048];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = 1;
    return bytes[sizeof bytes / 2];
}

NOT_FOR_ASAN __attribute__((noinline)) static int dig(const char *bottom)
{
    volatile char bytes[64];
    bytes[0] = 1;
    if ((const char *)__builtin_frame_address(0) < bottom + 1024)
        return overwrite_end();
    bytes[63] = (char)dig(bottom);
    return bytes[0] + bytes[63];
}

static void *dig_and_end(void *unused)
{
    MUST(dig(gs_stack_bottom(gs_thread_self())));
    return unused;
}

static void *dig_and_yield(void *unused)
{
    MUST(dig(gs_stack_bottom(gs_thread_self())));
    for (;;)
        gs_thread_yield();
    return unused;
}

static gs_thread_fn *digging;

static void *start_digging(void *unused)
{
    MUST(!strcmp(gs_threads_stack_guard(), "canary"));
    join(spawn_named("digger", digging, NULL));
    return unused;
}

static void run_digging(void)
{
    gs_sys_set_fault(fail_guard, NULL);
    run_reporting(1, start_digging, 0);
}

static void find_guard_call(void)
{
    setenv("GOSSAMER_NO_GUARD_REGIONS", "1", 1);
    int status = in_child(count_calls);
    CHECK(WIFEXITED(status));
    guard_call = WEXITSTATUS(status);
}

TEST(overwritten_canary_is_reported_when_the_thread_ends_and_while_it_runs)
{
    find_guard_call();
    for (int i = 0; i < 2; i++) {
        digging = i ? dig_and_yield : dig_and_end;
        CHECK(is_segv(in_child(run_digging)));
        CHECK_REPORTED("^stack overflow: thread \"digger\" needs more than its [0-9]+ bytes$");
        CHECK_REPORTED("^ +gs_thread_exit \\(|^ +dig_and_yield \\(");
    }
}

/* ---- The same, and another thread gets the stack ---- */

static void *return_at_once(void *unused)
{
    return unused;
}

static void *start_sharing(void *unused)
{
    const struct gs_thread_attributes digger = {.name = "digger", .stack_is_shared = true},
                                      other = {.name = "other", .stack_is_shared = true};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&digger, dig_and_yield, NULL, NULL), 0);
    MUST_EQ(gs_thread_spawn(&other, return_at_once, NULL, &thread), 0);
    join(thread);
    return unused;
}

static void run_sharing_canary(void)
{
    gs_shared_stacks_max = 1;
    gs_sys_set_fault(fail_guard, NULL);
    run_reporting(1, start_sharing, 0);
}

TEST(overwritten_canary_of_a_shared_stack_is_reported_with_the_right_thread)
{
    find_guard_call();
    CHECK(is_segv(in_child(run_sharing_canary)));
    CHECK_REPORTED("^stack overflow: thread \"digger\" needs more than its [0-9]+ bytes$");
    CHECK_REPORTED("^ +dig_and_yield \\(");
}

static void *raise_segv(void *unused)
{
    raise(SIGSEGV);
    return unused;
}

static void run_raising(void)
{
    run_reporting(1, raise_segv, 0);
}

TEST(signal_that_is_no_overflow_is_not_reported_and_not_lost)
{
    CHECK(is_segv(in_child(run_raising)));
    CHECK(!is_reported("stack overflow"));
}

/* ---- Functions of user threads that are called by other kernel threads ---- */

static atomic_bool has_started;

static void *signal_cond(void *cond)
{
    while (!atomic_load(&has_started))
        usleep(100);
    gs_cond_signal(cond);
    return NULL;
}

static void *wait_for_cond(void *cond)
{
    atomic_store(&has_started, true);
    MUST_EQ(gs_cond_wait(cond, NULL, after(60 * GS_SECOND)), 0);
    return NULL;
}

/* A kernel thread that a worker creates would inherit the GS base. */
static void run_with_nonworker(void)
{
    static struct gs_cond cond;
    const struct gs_threads_options options = {.report_fd = report_out};
    pthread_t kernel_thread;
    if (pthread_create(&kernel_thread, NULL, signal_cond, &cond) ||
        gs_threads_run(&options, wait_for_cond, &cond, NULL))
        _exit(3);
}

TEST(call_by_a_kernel_thread_that_is_no_worker_is_reported)
{
    if (!gs_runtime.uses_gsbase)
        SKIP("workers are not found by the GS base");
    CHECK(is_segv(in_child(run_with_nonworker)));
    CHECK_REPORTED("^no worker: a kernel thread that is none has called a function of threads$");
    CHECK_REPORTED("^ +signal_cond \\(test_thread_overflow\\+0x[0-9a-f]+\\)$");
}
