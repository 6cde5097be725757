#include "tests/thread/fixture.h"

static void *log_number(void *number)
{
    log_call(number);
    return NULL;
}

THREAD(spawn_by_priority)
{
    const struct gs_thread_attributes low = {.priority = GS_PRIORITY_LOW},
                                      high = {.priority = GS_PRIORITY_HIGH};
    clear_calls();
    MUST_EQ(gs_thread_spawn(&low, log_number, "l", NULL), 0);
    MUST_EQ(gs_thread_spawn(NULL, log_number, "n", NULL), 0);
    MUST_EQ(gs_thread_spawn(&high, log_number, "h", NULL), 0);
    MUST_EQ(gs_thread_spawn(&high, log_number, "H", NULL), 0);
}

TEST(higher_priority_runs_first_and_equals_in_turn)
{
    run_with(1, spawn_by_priority);
    CHECK_STR(calls, "hHnl");
}

static void *log_after_yield(void *number)
{
    gs_thread_yield();
    return log_number(number);
}

/* Both have yielded before the priority counts. */
THREAD(raise_the_second)
{
    clear_calls();
    struct gs_thread *first = spawn(log_after_yield, "1"), *second = spawn(log_after_yield, "2");
    gs_thread_set_priority(second, GS_PRIORITY_HIGH);
    join(first);
    join(second);
}

TEST(priority_counts_from_the_next_time_that_the_thread_becomes_ready)
{
    run_with(1, raise_the_second);
    CHECK_STR(calls, "21");
}

static bool has_run;

static void *run_low(void *unused)
{
    has_run = true;
    return unused;
}

THREAD_TEST(low_priority_is_not_starved, run_on_one)
{
    const struct gs_thread_attributes low = {.priority = GS_PRIORITY_LOW};
    gs_thread_set_priority(gs_thread_self(), GS_PRIORITY_HIGH);
    MUST_EQ(gs_thread_spawn(&low, run_low, NULL, NULL), 0);
    for (int i = 0; i < 1000 && !has_run; i++)
        gs_thread_yield();
    MUST(has_run);
}

enum { HIGH_THREADS = 3, HIGH_TURNS = 64 * 40 };

static unsigned turns_of[3], high_left;

static void *take_turns(void *priority)
{
    while (high_left) {
        turns_of[(uintptr_t)priority]++;
        gs_thread_yield();
    }
    return NULL;
}

THREAD(take_high_turns)
{
    for (unsigned i = 0; i < HIGH_TURNS; i++)
        gs_thread_yield();
    high_left--;
}

THREAD(spawn_of_each_class)
{
    const struct gs_thread_attributes low = {.priority = GS_PRIORITY_LOW},
                                      high = {.priority = GS_PRIORITY_HIGH};
    memset(turns_of, 0, sizeof turns_of);
    high_left = HIGH_THREADS;
    for (int i = 0; i < 2; i++) {
        void *normal_class = (void *)(uintptr_t)GS_PRIORITY_NORMAL;
        MUST_EQ(gs_thread_spawn(NULL, take_turns, normal_class, NULL), 0);
        MUST_EQ(gs_thread_spawn(&low, take_turns, (void *)(uintptr_t)GS_PRIORITY_LOW, NULL), 0);
    }
    for (int i = 0; i < HIGH_THREADS; i++)
        MUST_EQ(gs_thread_spawn(&high, take_high_turns, NULL, NULL), 0);
}

/* Every 64 switches, one thread of each lower priority runs first. */
TEST(each_class_has_a_bounded_number_of_turns_between_its_own_while_higher_ones_are_ready)
{
    run_with(1, spawn_of_each_class);
    CHECK(turns_of[GS_PRIORITY_NORMAL] >= HIGH_THREADS * HIGH_TURNS / 64 / 2);
    CHECK(turns_of[GS_PRIORITY_LOW] >= HIGH_THREADS * HIGH_TURNS / 64 / 2);
    CHECK(turns_of[GS_PRIORITY_NORMAL] + turns_of[GS_PRIORITY_LOW] < HIGH_THREADS * HIGH_TURNS);
}
