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
    struct gs_threads_counts all, one, sum = {0};
    struct gs_thread *threads[10];
    unsigned worker = 1;
    for (int i = 0; i < 10; i++)
        threads[i] = spawn(yield_often, NULL);
    gs_threads_counts(&all);
    MUST_EQ(all.spawned, 11);
    MUST(all.live >= 1 && all.live <= 11);
    for (int i = 0; i < 10; i++)
        join(threads[i]);
    gs_threads_counts(&all);
    for (; !gs_threads_worker_counts(worker, &one); worker++) {
        MUST_EQ(one.live, 0);
        sum.spawned += one.spawned;
        sum.switches += one.switches;
    }
    MUST_EQ(worker, 4);
    MUST_EQ(gs_threads_worker_counts(0, &one), -EINVAL);
    MUST_EQ(all.spawned, 11);
    MUST_EQ(all.live, 1);
    MUST_EQ(sum.spawned, 10);
    MUST(sum.switches >= 1000 && all.stacks >= 2);
    return unused;
}

TEST(counts_of_the_workers_are_the_parts_of_all)
{
    run_with(3, count);
}

static void *count_ready(void *unused)
{
    struct gs_threads_counts counts;
    struct gs_thread *threads[7];
    for (int i = 0; i < 7; i++)
        threads[i] = spawn(yield_often, NULL);
    MUST_EQ(gs_threads_worker_counts(1, &counts), 0);
    MUST_EQ(counts.ready, 7);
    gs_threads_counts(&counts);
    MUST_EQ(counts.ready, 7);
    MUST_EQ(counts.live, 8);
    for (int i = 0; i < 7; i++)
        join(threads[i]);
    gs_threads_counts(&counts);
    MUST_EQ(counts.ready, 0);
    return unused;
}

TEST(those_that_are_ready_are_counted)
{
    run_with(1, count_ready);
}

static void *spin(void *unused)
{
    while (!atomic_load(&may_end))
        ;
    return unused;
}

static void *wait_for_stuck(void *unused)
{
    const struct gs_thread_attributes attributes = {.worker = 2};
    struct gs_threads_counts counts = {0};
    struct gs_thread *thread;
    MUST_EQ(gs_thread_spawn(&attributes, spin, NULL, &thread), 0);
    while (!counts.stuck) {
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        MUST_EQ(gs_threads_worker_counts(2, &counts), 0);
    }
    gs_threads_counts(&counts);
    MUST(counts.stuck >= 1);
    atomic_store(&may_end, true);
    join(thread);
    return unused;
}

TEST(workers_that_are_found_stuck_are_counted)
{
    run_with(2, wait_for_stuck);
}
