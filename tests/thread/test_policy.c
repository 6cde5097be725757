#include "tests/thread/fixture.h"

static const uint64_t work[] = {400000, 100000, 300000, 200000};
static struct gs_cond conditions[2];

static void *log_number(void *number)
{
    log_call(number);
    return NULL;
}

static void *tell_work(void *letter)
{
    gs_thread_set_remaining(work[*(char *)letter - 'a']);
    gs_thread_yield();
    log_call(letter);
    return NULL;
}

static void *spawn_work(void *unused)
{
    (void)unused;
    clear_calls();
    struct gs_thread *threads[] = {spawn(tell_work, "a"), spawn(tell_work, "b"),
                                   spawn(tell_work, "c"), spawn(tell_work, "d")};
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    MUST(!strcmp(calls, "bdca"));
    return NULL;
}

TEST(shortest_remaining_work_runs_first)
{
    const struct gs_threads_options options = {.policy = &gs_policy_shortest};
    CHECK_EQ(gs_threads_run(&options, spawn_work, NULL, NULL), 0);
}

static void *spawn_by_priority(void *unused)
{
    const struct gs_thread_attributes low = {.priority = GS_PRIORITY_LOW},
                                      high = {.priority = GS_PRIORITY_HIGH};
    (void)unused;
    clear_calls();
    MUST_EQ(gs_thread_spawn(&low, log_number, "l", NULL), 0);
    MUST_EQ(gs_thread_spawn(NULL, log_number, "n", NULL), 0);
    MUST_EQ(gs_thread_spawn(&high, log_number, "h", NULL), 0);
    MUST_EQ(gs_thread_spawn(&high, log_number, "H", NULL), 0);
    return NULL;
}

TEST(higher_priority_runs_first_and_equals_in_turn)
{
    run_with(1, spawn_by_priority);
    CHECK_STR(calls, "hHnl");
}

static bool has_run;

static void *run_low(void *unused)
{
    (void)unused;
    has_run = true;
    return NULL;
}

static void *starve(void *unused)
{
    const struct gs_thread_attributes low = {.priority = GS_PRIORITY_LOW};
    (void)unused;
    gs_thread_set_priority(gs_thread_self(), GS_PRIORITY_HIGH);
    MUST_EQ(gs_thread_spawn(&low, run_low, NULL, NULL), 0);
    for (int i = 0; i < 1000 && !has_run; i++)
        gs_thread_yield();
    MUST(has_run);
    return NULL;
}

TEST(low_priority_is_not_starved)
{
    run_with(1, starve);
}

static void *wait_here(void *letter)
{
    MUST_EQ(gs_cond_wait(&conditions[0], NULL, GS_NEVER), 0);
    log_call(letter);
    return NULL;
}

static void *wait_there(void *letter)
{
    MUST_EQ(gs_cond_wait(&conditions[1], NULL, GS_NEVER), 0);
    log_call(letter);
    return NULL;
}

static void *wake_in_turn(void *unused)
{
    struct gs_thread *threads[6];
    (void)unused;
    clear_calls();
    for (int i = 0; i < 6; i++)
        threads[i] = spawn(i % 2 ? wait_there : wait_here, i % 2 ? "t" : "h");
    gs_thread_yield();
    for (int i = 0; i < 6; i++)
        gs_cond_signal(&conditions[i % 2]);
    for (int i = 0; i < 6; i++)
        join(threads[i]);
    MUST(!strcmp(calls, "hhhttt") || !strcmp(calls, "ttthhh"));
    return NULL;
}

TEST(threads_that_waited_at_the_same_place_run_in_a_row)
{
    const struct gs_threads_options options = {.policy = &gs_policy_cohort};
    CHECK_EQ(gs_threads_run(&options, wake_in_turn, NULL, NULL), 0);
}
