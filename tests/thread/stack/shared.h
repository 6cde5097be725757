/* Fixture of the tests of threads that share stacks. */
#ifndef GS_TESTS_THREAD_SHARED_H
#define GS_TESTS_THREAD_SHARED_H

#include "tests/thread/report/report.h"
#include "thread/stack/shared_stack.h"

static const struct gs_thread_attributes shared = {.name = "shared", .stack_is_shared = true};

static inline struct gs_threads_stats stats_now(void)
{
    struct gs_threads_stats stats;
    gs_threads_stats(&stats);
    return stats;
}

static inline struct gs_thread *spawn_as(const struct gs_thread_attributes *attributes,
                                         gs_thread_fn *fn, void *argument)
{
    struct gs_thread *thread = NULL;
    MUST_EQ(gs_thread_spawn(attributes, fn, argument, &thread), 0);
    return thread;
}

/* Run with at most so many stacks for each worker: the more threads of one are evicted. */
static inline void run_sharing(unsigned workers, unsigned stacks, gs_thread_fn *first)
{
    const struct gs_threads_options options = {.workers = workers, .report_fd = report_out};
    gs_shared_stacks_max = stacks;
    int err = gs_threads_run(&options, first, NULL, NULL);
    gs_shared_stacks_max = SHARED_STACKS;
    CHECK(!err || err == -EDEADLK);
}

static inline void run_sharing_each(gs_thread_fn *first)
{
    run_sharing(1, 1, first);
    run_sharing(1, 3, first);
    run_sharing(3, 1, first);
}

static void *return_at_once(void *unused)
{
    return unused;
}

/* Another thread of the worker takes its only stack, and leaves it. */
static inline void take_stack(unsigned worker)
{
    const struct gs_thread_attributes attributes = {.worker = worker, .stack_is_shared = true};
    MUST_EQ(gs_shared_stacks_max, 1);
    join(spawn_as(&attributes, return_at_once, NULL));
}

#endif
