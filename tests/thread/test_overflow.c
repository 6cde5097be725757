#include "tests/thread/report.h"
#include "thread/state.h"

#include <sys/mman.h>
#include <sys/syscall.h>

static unsigned *depth; /* shared with the child */

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

/* A sanitizer makes an exit with a report of its own of it. */
static bool is_segv(int status)
{
    if (GS_ASAN || GS_TSAN)
        return WIFEXITED(status) ? WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3 : true;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void check_overflow(void (*fn)(void))
{
    unsigned deep = 0, most = 0;
    CHECK(is_segv(in_child(fn)));
    CHECK_REPORTED("^stack overflow: thread \"glutton\" needs more than its [0-9]+ bytes$");
    CHECK_REPORTED("^  in [^ ]+.*, [0-9]+ calls deep$");
    CHECK_REPORTED("^  [0-9]+ of them are recurse \\(test_thread_overflow\\+0x[0-9a-f]+\\)$");
    CHECK_REPORTED("^ +\\.\\.\\. [0-9]+ more$");
    CHECK_REPORTED("^ +overflow \\(");
    CHECK_EQ(sscanf(strstr(report, ", ") + 2, "%u calls", &deep), 1);
    CHECK_EQ(sscanf(strstr(report, " calls deep\n") + 12, "%u of", &most), 1);
    CHECK(most + 2 >= *depth && most <= *depth + 2);
    CHECK(deep > most && deep < most + 16);
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
    CHECK_STR(gs_threads_guard(), "none yet");
}

/* ---- Where a canary has to do ---- */

/* The second mprotect is that of the first guard. */
static long fail_guard(long number, void *seen)
{
    return number == SYS_mprotect && ++*(int *)seen == 2 ? -ENOMEM : 0;
}

__attribute__((noinline)) static int dig(const char *bottom)
{
    volatile char bytes[64];
    bytes[0] = 1;
    if ((const char *)__builtin_frame_address(0) < bottom - 256)
        return 1;
    bytes[63] = (char)dig(bottom);
    return bytes[0] + bytes[63];
}

static void *dig_and_end(void *unused)
{
    MUST(dig(gs_thread_self()->stack));
    return unused;
}

static void *dig_and_yield(void *unused)
{
    MUST(dig(gs_thread_self()->stack));
    for (;;)
        gs_thread_yield();
    return unused;
}

static gs_thread_fn *digging;

static void *start_digging(void *unused)
{
    MUST(!strcmp(gs_threads_guard(), "canary"));
    join(spawn_named("digger", digging, NULL));
    return unused;
}

static void run_digging(void)
{
    int seen = 0;
    gs_sys_set_fault(fail_guard, &seen);
    run_reporting(1, start_digging, 0);
}

TEST(canary_that_is_gone_is_reported_when_the_thread_ends_and_while_it_runs)
{
    setenv("GOSSAMER_NO_GUARD_REGIONS", "1", 1);
    for (int i = 0; i < 2; i++) {
        digging = i ? dig_and_yield : dig_and_end;
        CHECK(is_segv(in_child(run_digging)));
        CHECK_REPORTED("^stack overflow: thread \"digger\" needs more than its [0-9]+ bytes$");
        CHECK_REPORTED("^ +gs_thread_exit \\(|^ +dig_and_yield \\(");
    }
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
