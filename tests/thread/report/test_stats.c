#include "tests/thread/fixture.h"

static atomic_bool may_end;

static void *yield_often(void *unused)
{
    for (int i = 0; i < 200; i++)
        gs_thread_yield();
    return unused;
}

static void *count(void *unused)
{
    struct gs_threads_stats all, one, sum = {0};
    struct gs_thread *threads[10];
    unsigned worker = 1;
    for (int i = 0; i < 10; i++)
        threads[i] = spawn(yield_often, NULL);
    gs_threads_stats(&all);
    MUST_EQ(all.spawned, 11);
    MUST(all.live >= 1 && all.live <= 11);
    for (int i = 0; i < 10; i++)
        join(threads[i]);
    gs_threads_stats(&all);
    for (; !gs_threads_worker_stats(worker, &one); worker++) {
        MUST_EQ(one.live, 0);
        sum.spawned += one.spawned;
        sum.switches += one.switches;
    }
    MUST_EQ(worker, 4);
    MUST_EQ(gs_threads_worker_stats(0, &one), -EINVAL);
    MUST_EQ(all.spawned, 11);
    MUST_EQ(all.live, 1);
    MUST_EQ(sum.spawned, 10);
    MUST(sum.switches >= 1000 && all.stacks >= 2);
    return unused;
}

/* Without the monitor, which might add an extra worker while all workers wait for a CPU. */
TEST(stats_of_the_workers_add_up_to_those_of_the_runtime)
{
    const struct gs_threads_options options = {.workers = 3, .stuck_ns = GS_NEVER};
    CHECK_EQ(gs_threads_run(&options, count, NULL, NULL), 0);
}

/* The deadlines are so late that each is waited for, even on a busy machine. */
THREAD_TEST(each_iteration_of_a_loop_is_counted, run_on_one)
{
    struct gs_threads_stats before, now;
    gs_threads_stats(&before);
    for (int i = 0; i < 3; i++)
        MUST_EQ(gs_thread_sleep(after(50 * GS_MILLISECOND)), 0);
    gs_threads_stats(&now);
    MUST(now.polls >= before.polls + 3);
}

enum { ROUNDS = 20, YIELDS = 256 };

static void compute_for(uint64_t ns)
{
    const uint64_t end_ns = gs_clock_now() + ns;
    while (gs_clock_now() < end_ns)
        ;
}

static void *yield_until_end(void *unused)
{
    while (!atomic_load(&may_end))
        gs_thread_yield();
    return unused;
}

/* After 200 us a poll is due at the next of every 64 switches: about one in each round. */
THREAD_TEST(loop_is_not_polled_at_each_switch, run_on_one)
{
    struct gs_threads_stats before, now;
    atomic_store(&may_end, false);
    struct gs_thread *other = spawn(yield_until_end, NULL);
    gs_threads_stats(&before);
    for (int i = 0; i < ROUNDS; i++) {
        compute_for(200 * GS_MICROSECOND);
        for (int k = 0; k < YIELDS; k++)
            gs_thread_yield();
    }
    gs_threads_stats(&now);
    atomic_store(&may_end, true);
    join(other);
    atomic_store(&may_end, false);
    MUST(now.polls > before.polls);
    MUST(now.polls < before.polls + (uint64_t)ROUNDS * 32);
}

THREAD_TEST(ready_threads_are_counted, run_on_one)
{
    struct gs_threads_stats counts;
    struct gs_thread *threads[7];
    for (int i = 0; i < 7; i++)
        threads[i] = spawn(yield_often, NULL);
    MUST_EQ(gs_threads_worker_stats(1, &counts), 0);
    MUST_EQ(counts.ready, 7);
    gs_threads_stats(&counts);
    MUST_EQ(counts.ready, 7);
    MUST_EQ(counts.live, 8);
    for (int i = 0; i < 7; i++)
        join(threads[i]);
    gs_threads_stats(&counts);
    MUST_EQ(counts.ready, 0);
}

static void *spin(void *unused)
{
    while (!atomic_load(&may_end))
        ;
    return unused;
}

THREAD_TEST(workers_that_are_found_stuck_are_counted, run_on_two)
{
    const struct gs_thread_attributes attributes = {.worker = 2};
    struct gs_threads_stats counts = {0};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, spin, NULL, &thread), 0);
    while (!counts.stuck) {
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        MUST_EQ(gs_threads_worker_stats(2, &counts), 0);
    }
    gs_threads_stats(&counts);
    MUST(counts.stuck >= 1);
    atomic_store(&may_end, true);
    join(thread);
}

/* ---- Stacks ---- */

enum { RUNS = 20, SPAWNED = 200 };

static struct gs_semaphore semaphore;

static void *wait_for_post(void *unused)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    return unused;
}

/* All threads exist at once, so each needs a stack of its own. */
static void *spawn_and_join(void *ret_stacks)
{
    struct gs_thread *threads[SPAWNED];
    struct gs_threads_stats stats;
    for (int i = 0; i < SPAWNED; i++)
        threads[i] = spawn(wait_for_post, NULL);
    for (int i = 0; i < SPAWNED; i++)
        gs_semaphore_post(&semaphore);
    for (int i = 0; i < SPAWNED; i++)
        join(threads[i]);
    gs_threads_stats(&stats);
    *(uint64_t *)ret_stacks = stats.stacks;
    return NULL;
}

/* At its end, a worker leaves its free stacks to the workers of later runs. */
TEST(stacks_do_not_become_more_from_run_to_run)
{
    const struct gs_threads_options options = {.workers = 3};
    uint64_t first, stacks;
    CHECK_EQ(gs_threads_run(&options, spawn_and_join, &first, NULL), 0);
    CHECK(first > SPAWNED);
    for (int i = 1; i < RUNS; i++) {
        CHECK_EQ(gs_threads_run(&options, spawn_and_join, &stacks, NULL), 0);
        CHECK_EQ(stacks, first);
    }
}
