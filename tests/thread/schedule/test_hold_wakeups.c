#include "tests/thread/fixture.h"

enum { WORKERS = 2, ROUNDS = 2000 };

static atomic_int ran;

static void *count(void *unused)
{
    atomic_fetch_add(&ran, 1);
    return unused;
}

/* Spawned by the attributes of threads that any worker may run. */
static void spawn_shared(gs_thread_fn *fn, void *argument)
{
    const struct gs_thread_attributes attributes = {.name = "shared", .migrates = true};
    MUST_EQ(gs_thread_spawn(&attributes, fn, argument, NULL), 0);
}

/* Until then this thread occupies its worker. */
static void compute_until(int count_of_threads)
{
    while (atomic_load(&ran) < count_of_threads)
        ;
}

static void run_all(gs_thread_fn *first)
{
    ran = 0;
    run_with(WORKERS, first);
}

THREAD_TEST(held_wake_up_is_made_good_by_wake_idle, run_all)
{
    for (int i = 1; i <= 50; i++) {
        gs_threads_hold_wakeups(true);
        spawn_shared(count, NULL);
        gs_threads_hold_wakeups(false);
        gs_threads_wake_idle();
        compute_until(i);
    }
}

THREAD_TEST(second_thread_wakes_an_idle_worker_while_wake_ups_are_held, run_all)
{
    for (int i = 1; i <= 50; i++) {
        gs_threads_hold_wakeups(true);
        spawn_shared(count, NULL);
        spawn_shared(count, NULL);
        gs_threads_hold_wakeups(false);
        compute_until(2 * i - 1); /* that the second is taken, too, needs one that is still awake */
        while (atomic_load(&ran) < 2 * i)
            gs_thread_yield();
    }
}

static void *unpark_it(void *thread)
{
    atomic_fetch_add(&ran, 1);
    gs_threads_hold_wakeups(true);
    gs_thread_unpark(thread);
    gs_threads_hold_wakeups(false);
    return NULL;
}

/* The other worker sleeps, except at the start. */
THREAD(wait_for_answers)
{
    struct gs_threads_stats stats;
    for (int i = 0; i < ROUNDS; i++) {
        gs_threads_hold_wakeups(true);
        spawn_shared(unpark_it, gs_thread_self());
        gs_threads_hold_wakeups(false);
        MUST_EQ(gs_thread_park(GS_NEVER), 0);
    }
    gs_threads_stats(&stats);
    MUST_EQ(atomic_load(&ran), ROUNDS);
    MUST(stats.steals < ROUNDS / 2);
}

THREAD_TEST(caller_that_waits_runs_the_thread_on_its_own_worker, run_all)
{
    MUST(!gs_threads_hold_wakeups(true));
    MUST(gs_threads_hold_wakeups(false));
    MUST(!gs_threads_hold_wakeups(false));
    spawn_shared(wait_for_answers, NULL);
}

TEST(outside_of_workers_nothing_is_held)
{
    MUST(!gs_threads_hold_wakeups(true));
    MUST(!gs_threads_hold_wakeups(false));
}
