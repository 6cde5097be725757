#include "tests/thread/fixture.h"

static long failing;
static atomic_int left; /* atomic, as several workers make system calls */

/* System calls with this number fail after `left` successful ones. */
static long fail(long number, void *err)
{
    return number == failing && atomic_fetch_sub(&left, 1) <= 0 ? *(long *)err : 0;
}

static void *do_nothing(void *unused)
{
    return unused;
}

static void *start_and_join(void *unused)
{
    join(spawn(do_nothing, NULL));
    return unused;
}

static atomic_int failures;

static void count_failure(void)
{
    atomic_fetch_add(&failures, 1);
}

static int run_failing(long number, int after_calls, long err)
{
    const struct gs_threads_options options = {.workers = 2, .on_failure = count_failure};
    failing = number;
    left = after_calls;
    gs_sys_set_fault(fail, &err);
    int result = gs_threads_run(&options, start_and_join, NULL, NULL);
    gs_sys_set_fault(NULL, NULL);
    return result;
}

/* The order of these tests matters: reservations last as long as the process. */
TEST(no_addresses_for_stacks_is_a_clean_error)
{
    CHECK_EQ(run_failing(SYS_mmap, 0, -ENOMEM), -ENOMEM);
}

TEST(no_memory_for_the_first_stack_is_a_clean_error)
{
    CHECK_EQ(run_failing(SYS_mprotect, 0, -ENOMEM), -ENOMEM);
}

static bool is_on_ring(void)
{
    struct gs_loop *loop;
    CHECK_EQ(gs_loop_new(&loop), 0);
    bool is = !strcmp(gs_loop_poller(loop), "io_uring");
    gs_loop_free(loop);
    return is;
}

TEST(no_poller_or_eventfd_is_a_clean_error)
{
    long number = is_on_ring() ? SYS_io_uring_setup : SYS_epoll_create1;
    for (int n = 0; n < 2; n++) {
        CHECK_EQ(run_failing(number, n, -EMFILE), -EMFILE);
        CHECK_EQ(run_failing(SYS_eventfd2, n, -ENFILE), -ENFILE);
    }
}

TEST(loop_that_fails_for_good_ends_the_run_with_its_error)
{
    /* The loop of each worker tries its ring before it uses that. */
    int tries = is_on_ring() ? 2 : 0;
    atomic_store(&failures, 0);
    CHECK_EQ(run_failing(tries ? SYS_io_uring_enter : SYS_epoll_pwait2, tries, -EBADF), -EBADF);
    CHECK(atomic_load(&failures) > 0);
}

TEST(threads_can_be_run_after_all_faults)
{
    run_with(1, start_and_join);
    run_with(3, start_and_join);
}

THREAD_TEST(spawn_fails_without_memory_and_succeeds_later, run_on_one)
{
    const struct gs_thread_attributes attributes = {.stack_size = 1000};
    long err = -ENOMEM;
    struct gs_thread *thread;
    failing = SYS_mprotect;
    left = 0;
    gs_sys_set_fault(fail, &err);
    MUST_EQ(gs_thread_spawn(&attributes, do_nothing, NULL, &thread), -ENOMEM);
    gs_sys_set_fault(NULL, NULL);
    MUST_EQ(gs_thread_spawn(&attributes, do_nothing, NULL, &thread), 0);
    join(thread);
}
