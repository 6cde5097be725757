/* When private stacks are given back: after a time of the run or of the thread, or under
 * pressure. */
#include "tests/thread/stack/stack_away.h"
#include "thread/stack/stack_sweep.h"

static const uint64_t an_hour_ns = 3600 * GS_SECOND;

static void *wait_once(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

static struct gs_channel *channel;

static void *receive_on_stack(void *unused)
{
    long local = 1;
    MUST_EQ(gs_channel_receive(channel, &local, GS_NEVER), 0);
    MUST_EQ(local, 42);
    return unused;
}

/* ---- A time of its own ---- */

/* Two threads wait with different times; the first goes away, and the second has waited as long. */
static void wait_with_two(uint64_t first_ns, uint64_t second_ns, bool migrates)
{
    struct gs_thread_attributes attributes = {
        .migrates = migrates, .stack_is_private = true, .give_back_ns = second_ns};
    struct gs_thread *threads[2] = {[1] = spawn_as(&attributes, wait_once, NULL)};
    attributes.give_back_ns = first_ns;
    threads[0] = spawn_as(&attributes, wait_once, NULL);
    wait_until_away(1);
    for (int pass = 0; pass < 3; pass++)
        MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
    MUST_EQ(stats_now().away, 1);
    gs_thread_unpark(threads[0]);
    join(threads[0]);
    MUST_EQ(stats_now().away, 0);
    gs_thread_unpark(threads[1]);
    join(threads[1]);
}

static void *wait_with_times(void *own_ns)
{
    for (int i = 0; i < 2; i++)
        wait_with_two(((uint64_t *)own_ns)[0], ((uint64_t *)own_ns)[1], i);
    return NULL;
}

TEST(thread_may_have_a_time_of_its_own_after_which_its_stack_is_given_back)
{
    skip_if_emulated();
    static const struct {
        uint64_t run_ns, own_ns[2];
    } cases[] = {
        {3600 * GS_SECOND, {GS_MILLISECOND, 0}}, {GS_NEVER, {GS_MILLISECOND, 0}},
        {GS_MILLISECOND, {0, GS_NEVER}},         {GS_MILLISECOND, {0, GS_NEVER - 1}},
        {GS_MILLISECOND, {0, 3600 * GS_SECOND}},
    };
    for (unsigned i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const struct gs_threads_options options = {.workers = i % 2 ? 3 : 1,
                                                   .give_back_ns = cases[i / 2].run_ns};
        void *own_ns = (void *)cases[i / 2].own_ns;
        CHECK_EQ(gs_threads_run(&options, wait_with_times, own_ns, NULL), 0);
    }
}

static void *wait_twice(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    return unused;
}

/* One that is due in an hour starts the sweep; the next pass is then earlier for the other. */
static void *wait_behind_a_slow_one(void *unused)
{
    const struct gs_thread_attributes fast = {.stack_is_private = true,
                                              .give_back_ns = GS_MILLISECOND};
    struct gs_thread *slow = spawn_as(&private, wait_twice, NULL);
    MUST_EQ(gs_thread_sleep(after(5 * GS_MILLISECOND)), 0);
    for (int i = 0; i < 2; i++) {
        struct gs_thread *thread = spawn_as(&fast, wait_twice, NULL);
        for (int wait = 0; wait < 2; wait++) {
            wait_until_away(1);
            gs_thread_unpark(thread);
            while (stats_now().away)
                gs_thread_yield();
        }
        join(thread);
        gs_thread_unpark(slow);
    }
    join(slow);
    return unused;
}

TEST(short_time_is_kept_beside_a_long_one)
{
    skip_if_emulated();
    const struct gs_threads_options options = {.give_back_ns = an_hour_ns};
    CHECK_EQ(gs_threads_run(&options, wait_behind_a_slow_one, NULL, NULL), 0);
}

/* ---- When a pass begins ---- */

static struct gs_thread *spawn_with_time(uint64_t give_back_ns)
{
    const struct gs_thread_attributes attributes = {.stack_is_private = true,
                                                    .give_back_ns = give_back_ns};
    return spawn_as(&attributes, wait_once, NULL);
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

/* The first thread keeps its stack for hours, and the next pass waits for it a quarter longer. A
 * second one with a shorter time makes that pass earlier, one with a longer time does not. */
static void *begin_late(void *unused)
{
    uint64_t started_ns = gs_threads_now();
    struct gs_thread *first = spawn_with_time(4 * an_hour_ns);
    uint64_t pass_ns = next_pass_ns();
    CHECK(pass_ns >= started_ns + 5 * an_hour_ns && pass_ns <= gs_threads_now() + 5 * an_hour_ns);
    struct gs_thread *longer = spawn_with_time(8 * an_hour_ns);
    CHECK_EQ(next_pass_ns(), pass_ns);
    struct gs_thread *shorter = spawn_with_time(2 * an_hour_ns);
    CHECK(next_pass_ns() >= started_ns + 5 * an_hour_ns / 2 && next_pass_ns() < pass_ns);
    end_wait(first);
    end_wait(longer);
    end_wait(shorter);
    return unused;
}

TEST(pass_begins_a_quarter_of_the_time_after_the_first_stack_is_due)
{
    CHECK_EQ(gs_threads_run(NULL, begin_late, NULL, NULL), 0);
}

/* Three due times lie within a quarter of the first. Returns whether one pass has found all three;
 * then none is left for another one. */
static bool finds_several(void)
{
    struct gs_thread *threads[3];
    for (unsigned i = 0; i < 3; i++)
        threads[i] = spawn_with_time(GS_SECOND / 50 + i * GS_SECOND / 1000);
    gs_thread_yield();
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
    CHECK_EQ(gs_threads_run(NULL, find_several, NULL, NULL), 0);
}

/* ---- Under pressure ---- */

enum { HARDLY_ANY = 1, MANY = 12 };

static void *wait_until_all_are_away(void *unused)
{
    struct gs_thread *threads[MANY];
    for (int i = 0; i < MANY; i++)
        threads[i] = spawn_as(i % 2 ? &private : &mobile, wait_once, NULL);
    wait_until_away(MANY);
    for (int i = 0; i < MANY; i++)
        gs_thread_unpark(threads[i]);
    for (int i = 0; i < MANY; i++)
        join(threads[i]);
    return unused;
}

/* Otherwise it would wait for an hour. */
TEST(stacks_that_take_more_than_the_limit_are_given_back_early)
{
    skip_if_emulated();
    for (unsigned workers = 1; workers <= 3; workers += 2) {
        const struct gs_threads_options options = {
            .workers = workers, .give_back_ns = an_hour_ns, .give_back_above = HARDLY_ANY};
        CHECK_EQ(gs_threads_run(&options, wait_until_all_are_away, NULL, NULL), 0);
    }
}

static void *exceed_limit(void *unused)
{
    struct gs_thread *threads[4 * MANY];
    gs_threads_trim();
    threads[0] = spawn_as(&private, wait_once, NULL);
    MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
    MUST_EQ(stats_now().away, 0);
    for (int i = 1; i < 4 * MANY; i++)
        threads[i] = spawn_as(&private, wait_once, NULL);
    wait_until_away(UINT64_C(3) * MANY);
    for (int i = 0; i < 4 * MANY; i++)
        gs_thread_unpark(threads[i]);
    for (int i = 0; i < 4 * MANY; i++)
        join(threads[i]);
    return unused;
}

static void run_exceeding(void)
{
    const struct gs_threads_options options = {.give_back_ns = an_hour_ns,
                                               .give_back_above = MANY * gs_page_size};
    MUST_EQ(gs_threads_run(&options, exceed_limit, NULL, NULL), 0);
}

TEST(first_stack_above_the_limit_ends_the_pause_of_the_sweep)
{
    skip_if_emulated();
    CHECK_EQ(in_child(run_exceeding), 0);
}

/* Threads of the first worker wait for items on their stacks, and so keep them. */
static void *exceed_limit_on_one_worker(void *unused)
{
    const struct gs_thread_attributes elsewhere = {.worker = 2, .stack_is_private = true},
                                      here = {.worker = 1, .stack_is_private = true};
    struct gs_thread *there[MANY / 2], *receivers[MANY];
    gs_threads_trim();
    MUST_EQ(gs_channel_new(sizeof(long), 0, &channel), 0);
    for (int i = 0; i < MANY / 2; i++)
        there[i] = spawn_as(&elsewhere, wait_once, NULL);
    MUST_EQ(gs_thread_sleep(after(20 * GS_MILLISECOND)), 0);
    MUST_EQ(stats_now().away, 0);
    for (int i = 0; i < MANY; i++)
        receivers[i] = spawn_as(&here, receive_on_stack, NULL);
    wait_until_away(MANY / 2);
    for (int i = 0; i < MANY; i++)
        MUST_EQ(gs_channel_send(channel, &(long){42}, GS_NEVER), 0);
    for (int i = 0; i < MANY / 2; i++)
        gs_thread_unpark(there[i]);
    for (int i = 0; i < MANY / 2; i++)
        join(there[i]);
    for (int i = 0; i < MANY; i++)
        join(receivers[i]);
    gs_channel_free(channel);
    return unused;
}

static void run_exceeding_on_one_worker(void)
{
    const struct gs_threads_options options = {
        .workers = 2, .give_back_ns = an_hour_ns, .give_back_above = MANY * gs_page_size};
    MUST_EQ(gs_threads_run(&options, exceed_limit_on_one_worker, NULL, NULL), 0);
}

/* It has not run any thread since, and sleeps. */
TEST(other_workers_are_asked_to_give_stacks_back_above_the_limit)
{
    skip_if_emulated();
    CHECK_EQ(in_child(run_exceeding_on_one_worker), 0);
}
