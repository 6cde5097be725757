/* When private stacks are given back. */
#include "tests/thread/stack/stack_away.h"
#include "thread/stack/stack_sweep.h"

static void *wait_once(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

static uint64_t next_pass_ns(void)
{
    return worker_current()->sweep.timer.deadline_ns;
}

static void end_wait(struct gs_thread *thread)
{
    gs_thread_unpark(thread);
    join(thread);
}

/* The thread keeps its stack for four hours, and the next pass waits for it a quarter longer; a
 * second one does not change that. */
static void *begin_late(void *unused)
{
    const uint64_t five_hours_ns = UINT64_C(5) * 3600 * GS_SECOND;
    uint64_t started_ns = gs_threads_now();
    struct gs_thread *first = spawn_as(&private, wait_once, NULL);
    uint64_t pass_ns = next_pass_ns();
    CHECK(pass_ns >= started_ns + five_hours_ns && pass_ns <= gs_threads_now() + five_hours_ns);
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    struct gs_thread *second = spawn_as(&private, wait_once, NULL);
    CHECK_EQ(next_pass_ns(), pass_ns);
    end_wait(first);
    end_wait(second);
    return unused;
}

TEST(pass_begins_a_quarter_of_the_time_after_the_first_stack_is_due)
{
    const struct gs_threads_options options = {.give_back_ns = UINT64_C(4) * 3600 * GS_SECOND};
    CHECK_EQ(gs_threads_run(&options, begin_late, NULL, NULL), 0);
}

/* The others begin to wait within a quarter of the time. Returns whether one pass has found all
 * three; then none is left for another one. */
static bool finds_several(void)
{
    struct gs_thread *threads[3];
    for (unsigned i = 0; i < 3; i++) {
        threads[i] = spawn_as(&private, wait_once, NULL);
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    }
    wait_until_away(1);
    bool is_found = stats_now().away == 3 && !worker_current()->sweep.timer.watcher.active;
    for (unsigned i = 0; i < 3; i++)
        end_wait(threads[i]);
    return is_found;
}

/* If the machine stops in between, a thread begins to wait later. */
static void *find_several(void *unused)
{
    int attempts = 0;
    while (!finds_several())
        MUST(++attempts < 100);
    return unused;
}

TEST(pass_finds_those_that_have_become_due_since_the_first)
{
    skip_if_emulated();
    const struct gs_threads_options options = {.give_back_ns = 40 * GS_MILLISECOND};
    CHECK_EQ(gs_threads_run(&options, find_several, NULL, NULL), 0);
}
