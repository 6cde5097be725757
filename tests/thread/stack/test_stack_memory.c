/* The memory of free stacks, and stacks where addresses are limited. Each test is a process of its
 * own, before its first run. */
#include "tests/thread/report/report.h"
#include "tests/thread/schedule/forking.h"
#include "thread/stack/stacks.h"

#include <malloc.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define IS_SANITIZED (GS_ASAN + GS_TSAN > 0)
#define KEPT_MAX (4 * MIB)

enum { PEAK = IS_EMULATED || IS_SANITIZED ? 400 : 4000, WAITS_MAX = 600 };

static struct gs_thread *threads[PEAK];
static struct gs_semaphore semaphore;

static size_t resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    MUST(file && fscanf(file, "%lu %lu", &all, &resident) == 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void *wait_for_permit(void *number)
{
    volatile char bytes[3000];
    bytes[0] = (char)(intptr_t)number;
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    MUST_EQ(bytes[0], (char)(intptr_t)number);
    return number;
}

/* All live at the same time, on stacks of several classes. */
static void peak(void)
{
    static const size_t sizes[] = {IS_SANITIZED ? 64 * KIB : 16 * KIB, 56 * KIB, 64 * KIB};
    semaphore = (struct gs_semaphore){.count = 0};
    for (intptr_t i = 0; i < PEAK; i++) {
        const struct gs_thread_attributes attributes = {.stack_size = sizes[i % 3],
                                                        .migrates = i % 2};
        MUST_EQ(gs_thread_spawn(&attributes, wait_for_permit, (void *)i, &threads[i]), 0);
    }
    gs_thread_yield();
    for (int i = 0; i < PEAK; i++)
        gs_semaphore_post(&semaphore);
    for (intptr_t i = 0; i < PEAK; i++)
        MUST_EQ((intptr_t)join(threads[i]), i);
}

static size_t stack_count(void)
{
    struct gs_threads_stats stats;
    gs_threads_stats(&stats);
    return stats.stacks;
}

/* Some stay for the next threads. */
static void wait_until_given_back(size_t before)
{
    for (int i = 0; i < WAITS_MAX && resident_bytes() > before + KEPT_MAX; i++)
        MUST_EQ(gs_thread_sleep(gs_clock_now() + 50 * GS_MILLISECOND), 0);
    MUST(resident_bytes() <= before + KEPT_MAX);
}

static void *peak_twice(void *unused)
{
    size_t before = resident_bytes();
    peak();
    size_t count = stack_count();
    MUST(resident_bytes() >= before + (size_t)PEAK * 4 * KIB);
    wait_until_given_back(before);
    peak();
    MUST_EQ(stack_count(), count);
    wait_until_given_back(before);
    return unused;
}

static unsigned worker_count;
static gs_thread_fn *first;

static void run_first(void)
{
    run_reporting(worker_count, first, 0);
}

static void check_in_child(gs_thread_fn *fn)
{
    first = fn;
    for (worker_count = 1; worker_count <= 2; worker_count++)
        CHECK_EQ(in_child(run_first), 0);
}

TEST(memory_of_many_stacks_is_given_back_after_a_peak_and_they_are_used_again)
{
    if (!IS_SANITIZED && !IS_EMULATED)
        check_in_child(peak_twice);
}

static void *trim_at_once(void *unused)
{
    for (int i = 0; i < 3; i++) {
        peak();
        gs_threads_trim();
    }
    return unused;
}

TEST(all_stacks_are_used_again_after_a_trim)
{
    check_in_child(trim_at_once);
}

#if !GS_TSAN /* it does not know the threads of a forked process */
static void *fork_after_trim(void *unused)
{
    int status = 0;
    peak();
    gs_threads_trim();
    size_t count = stack_count();
    pid_t pid = gs_fork();
    MUST(pid >= 0);
    if (!pid) {
        peak();
        _exit(stack_count() == count ? 0 : 1);
    }
    MUST_EQ(waitpid(pid, &status, 0), pid);
    MUST_EQ(status, 0);
    return unused;
}

TEST(child_process_uses_the_stacks_whose_memory_was_given_back)
{
    if (IS_EMULATED || IS_GCC_ASAN)
        return; /* for the reasons in forking.h */
    check_in_child(fork_after_trim);
}
#endif

/* ---- Limited addresses ---- */

static void *sleep_long(void *unused)
{
    MUST_EQ(gs_thread_sleep(GS_NEVER), -ECANCELED);
    return unused;
}

static int spawn_until_error(int *ret_count)
{
    const struct gs_thread_attributes attributes = {.stack_size = 256 * KIB};
    int err = 0;
    for (*ret_count = 0; *ret_count < PEAK; ++*ret_count)
        if ((err = gs_thread_spawn(&attributes, sleep_long, NULL, &threads[*ret_count])))
            break;
    return err;
}

static void *use_all_addresses(void *unused)
{
    int count = 0, again = 0;
    MUST_EQ(spawn_until_error(&count), -ENOMEM);
    MUST(count > 50);
    gs_threads_cancel_all();
    for (int i = 0; i < count; i++)
        join(threads[i]);
    MUST_EQ(spawn_until_error(&again), -ENOMEM);
    MUST(again >= count);
    gs_threads_cancel_all();
    for (int i = 0; i < again; i++)
        join(threads[i]);
    return unused;
}

static void run_with_few_addresses(void)
{
    const struct rlimit limit = {64 * MIB, 64 * MIB};
    const struct gs_threads_options options = {.workers = 1, .stuck_ns = GS_NEVER};
    MUST_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    MUST_EQ(gs_threads_run(&options, use_all_addresses, NULL, NULL), 0);
}

TEST(where_addresses_are_limited_threads_start_until_there_are_none_left)
{
    if (!IS_SANITIZED && !IS_EMULATED)
        CHECK_EQ(in_child(run_with_few_addresses), 0);
}

static void run_peaks_with_few_addresses(void)
{
    const struct rlimit limit = {512 * MIB, 512 * MIB};
    /* The C library would reserve 64 MiB or more for each kernel thread that allocates, and on a
     * busy machine there are more of them than workers. */
    MUST_EQ(mallopt(M_ARENA_MAX, 1), 1);
    MUST_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    run_first();
}

TEST(where_addresses_are_limited_memory_is_given_back_too)
{
    first = peak_twice;
    for (worker_count = 1; worker_count <= 2 && !IS_SANITIZED && !IS_EMULATED; worker_count++)
        CHECK_EQ(in_child(run_peaks_with_few_addresses), 0);
}
