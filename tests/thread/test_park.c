#include "tests/thread/fixture.h"

#include <pthread.h>

static void *park_once(void *deadline_ns)
{
    return (void *)(intptr_t)gs_thread_park(deadline_ns ? *(uint64_t *)deadline_ns : GS_NEVER);
}

static void *wake_parked(void *unused)
{
    (void)unused;
    struct gs_thread *thread = spawn(park_once, NULL);
    gs_thread_yield();
    gs_thread_unpark(thread);
    MUST_EQ((intptr_t)join(thread), 0);
    return NULL;
}

TEST(unpark_wakes_a_parked_thread)
{
    run_both(wake_parked);
}

static void *keep_one(void *unused)
{
    (void)unused;
    gs_thread_unpark(gs_thread_self());
    gs_thread_unpark(gs_thread_self());
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    MUST_EQ(gs_thread_park(0), -ETIMEDOUT);
    MUST_EQ(gs_thread_park(after(2 * GS_MILLISECOND)), -ETIMEDOUT);
    gs_thread_unpark(gs_thread_self());
    MUST_EQ(gs_thread_park(0), 0);
    return NULL;
}

TEST(one_wake_up_that_came_early_is_kept)
{
    run_both(keep_one);
}

static void *unpark_from_outside(void *thread)
{
    usleep(5000);
    gs_thread_unpark(thread);
    return NULL;
}

static void *wait_for_outside(void *unused)
{
    pthread_t kernel_thread;
    (void)unused;
    MUST_EQ(pthread_create(&kernel_thread, NULL, unpark_from_outside, gs_thread_self()), 0);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    pthread_join(kernel_thread, NULL);
    return NULL;
}

TEST(kernel_thread_of_the_programs_own_wakes_a_thread)
{
    run_both(wait_for_outside);
}

static struct gs_thread *waiting;

static void *unpark_waiting(void *unused)
{
    (void)unused;
    gs_thread_unpark(waiting);
    return NULL;
}

static void *spawn_from_outside(void *ret_err)
{
    usleep(2000);
    *(int *)ret_err = gs_thread_self() ? -1 : gs_thread_spawn(NULL, unpark_waiting, NULL, NULL);
    return NULL;
}

static void *wait_for_spawned(void *unused)
{
    pthread_t kernel_thread;
    int err = 1;
    (void)unused;
    waiting = gs_thread_self();
    MUST_EQ(pthread_create(&kernel_thread, NULL, spawn_from_outside, &err), 0);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    pthread_join(kernel_thread, NULL);
    MUST_EQ(err, 0);
    return NULL;
}

TEST(kernel_thread_of_the_programs_own_starts_a_thread)
{
    run_both(wait_for_spawned);
}

enum { HAND_OVERS = 20000 };

static struct gs_thread *partners[2];

static void *hand_over(void *argument)
{
    int me = *(int *)argument;
    for (int i = 0; i < HAND_OVERS; i++) {
        if (me)
            MUST_EQ(gs_thread_park(GS_NEVER), 0);
        gs_thread_unpark(partners[!me]);
        if (!me)
            MUST_EQ(gs_thread_park(GS_NEVER), 0);
    }
    return NULL;
}

static void *hand_over_between_workers(void *unused)
{
    static int numbers[] = {0, 1};
    struct gs_thread_attributes attributes = {.worker = 2};
    (void)unused;
    MUST_EQ(gs_thread_spawn(&attributes, hand_over, &numbers[1], &partners[1]), 0);
    partners[0] = gs_thread_self();
    hand_over(&numbers[0]);
    join(partners[1]);
    return NULL;
}

TEST(no_wake_up_between_workers_is_lost)
{
    run_with(2, hand_over_between_workers);
}

static void *race_with_deadline(void *unused)
{
    (void)unused;
    int woken = 0, late = 0;
    for (int i = 0; i < 300; i++) {
        uint64_t deadline_ns = after((uint64_t)(i % 40) * GS_MICROSECOND);
        struct gs_thread *thread = spawn(park_once, &deadline_ns);
        uint64_t until_ns = after(20 * GS_MICROSECOND);
        while (gs_clock_now() < until_ns)
            gs_thread_yield();
        gs_thread_unpark(thread);
        intptr_t result = (intptr_t)join(thread);
        MUST(!result || result == -ETIMEDOUT);
        woken += !result;
        late += result != 0;
    }
    MUST_EQ(woken + late, 300);
    return NULL;
}

TEST(deadline_and_wake_up_at_the_same_time_end_the_wait_once)
{
    run_both(race_with_deadline);
}
