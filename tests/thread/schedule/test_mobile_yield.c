/* Threads that any worker may run, and that do nothing but yield. */
#include "tests/thread/fixture.h"

enum { WORKERS = 2 };

static atomic_bool yields, has_run;

static void spawn_shared(gs_thread_fn *fn)
{
    const struct gs_thread_attributes attributes = {.name = "shared", .migrates = true};
    MUST_EQ(gs_thread_spawn(&attributes, fn, NULL, NULL), 0);
}

THREAD(yield_until_it_has_run)
{
    atomic_store(&yields, true);
    while (!atomic_load(&has_run))
        gs_thread_yield();
}

static void *run_once(void *unused)
{
    atomic_store(&has_run, true);
    return unused;
}

/* It occupies its worker, at whose queue the second thread is; the other worker is never idle. */
THREAD(occupy_worker)
{
    spawn_shared(yield_until_it_has_run);
    while (!atomic_load(&yields))
        ;
    spawn_shared(run_once);
    while (!atomic_load(&has_run))
        ;
}

TEST(thread_behind_one_that_occupies_its_worker_is_taken_by_a_worker_whose_threads_yield)
{
    /* Without a monitor, which would add a worker. */
    const struct gs_threads_options options = {.workers = WORKERS, .stuck_ns = GS_NEVER};
    MUST_EQ(gs_threads_run(&options, occupy_worker, NULL, NULL), 0);
    CHECK(atomic_load(&has_run));
}
