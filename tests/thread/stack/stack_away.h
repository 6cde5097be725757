/* Fixture of the tests of private stacks that are given back while their threads wait. */
#ifndef GS_TESTS_THREAD_STACK_AWAY_H
#define GS_TESTS_THREAD_STACK_AWAY_H

#include "tests/thread/report/report.h"
#include "thread/context/sanitizer.h"

static const struct gs_thread_attributes private = {.name = "private", .stack_is_shared = true},
                                         mobile = {.name = "mobile",
                                                   .migrates = true,
                                                   .stack_is_shared = true};

static inline struct gs_threads_stats stats_now(void)
{
    struct gs_threads_stats stats;
    gs_threads_stats(&stats);
    return stats;
}

static inline void skip_if_emulated(void)
{
    if (IS_EMULATED)
        SKIP("an emulator may keep memory that is given back");
}

static inline void wait_until_away(uint64_t count)
{
    while (stats_now().away < count)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
}

static inline void run_giving_back(unsigned workers, gs_thread_fn *first)
{
    const struct gs_threads_options options = {.workers = workers, .give_back_ns = GS_MILLISECOND};
    CHECK_EQ(gs_threads_run(&options, first, NULL, NULL), 0);
    CHECK_EQ(stats_now().away, 0);
}

static inline void run_giving_back_both(gs_thread_fn *first)
{
    run_giving_back(1, first);
    run_giving_back(3, first);
}

static inline struct gs_thread *spawn_as(const struct gs_thread_attributes *attributes,
                                         gs_thread_fn *fn, void *argument)
{
    struct gs_thread *thread = NULL;
    MUST_EQ(gs_thread_spawn(attributes, fn, argument, &thread), 0);
    return thread;
}

#endif
