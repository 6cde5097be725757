#include "tests/thread/report/deadlocking.h"

static struct gs_semaphore semaphore;

static void *lock_ab(void *unused)
{
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    meet();
    MUST_EQ(gs_mutex_lock(&b, GS_NEVER), 0);
    return unused;
}

static void *lock_ba(void *unused)
{
    MUST_EQ(gs_mutex_lock(&b, GS_NEVER), 0);
    meet();
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    return unused;
}

static void *embrace(void *unused)
{
    barrier.threads = 2;
    struct gs_thread *left = spawn_named("left", lock_ab, NULL);
    spawn_named("right", lock_ba, NULL);
    join(left);
    return unused;
}

static gs_thread_fn *deadlocking;

/* A function for a child process. */
#define RUN(name_, ...)                                                                            \
    static void name_(void)                                                                        \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

RUN(run_one, run_reporting(1, deadlocking, -EDEADLK))
RUN(run_three, run_reporting(3, deadlocking, -EDEADLK))

/* Runs with one worker and with several; the report must contain both lines. */
static void check_deadlock(gs_thread_fn *fn, const char *line, const char *dumped)
{
    deadlocking = fn;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(in_child(i ? run_three : run_one), 0);
        CHECK_REPORTED("^deadlock: no thread can continue$");
        CHECK_REPORTED(line);
        CHECK_REPORTED(dumped);
    }
}

TEST(deadlock_is_reported_with_its_cycle)
{
    check_deadlock(embrace,
                   "^cycle: (\"left\" waits for mutex of \"right\", \"right\" waits for mutex of "
                   "\"left\"|\"right\" waits for mutex of \"left\", \"left\" waits for mutex of "
                   "\"right\")$",
                   "^thread 0x[0-9a-f]+ \"first\": has waited [0-9.]+ ms for join at 0x[0-9a-f]+, "
                   "[0-9]+ bytes of stack$");
    CHECK_REPORTED("^ +lock_ab \\(");
}

/* ---- What a thread that has ended leaves ---- */

enum { STACK_SIZE = 1 << 16 };

static void unmap(void *memory)
{
    munmap(memory, STACK_SIZE);
}

static void let_wait_and_exit(void *memory)
{
    gs_thread_yield();
    gs_thread_exit(memory);
}

static void *exit_in_once(void *memory)
{
    gs_once(&once, let_wait_and_exit, memory);
    return memory;
}

static void *leave_in_once(void *unused)
{
    void *memory =
        mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct gs_thread_attributes here = {.name = "waiting", .worker = 1},
                                      mapped = {.worker = 1,
                                                .stack = memory,
                                                .stack_size = STACK_SIZE,
                                                .on_end = unmap};
    MUST(memory != MAP_FAILED);
    MUST_EQ(gs_thread_spawn(&mapped, exit_in_once, memory, NULL), 0);
    MUST_EQ(gs_thread_spawn(&here, exit_in_once, NULL, NULL), 0);
    return unused;
}

TEST(memory_of_a_thread_that_has_ended_in_the_function_of_a_once_is_not_read)
{
    const char *line = "\"waiting\": has waited [0-9.]+ ms for once";
    check_deadlock(leave_in_once, line, line);
}

/* ---- Runs after a deadlock ---- */

static void *do_nothing(void *unused)
{
    return unused;
}

static void deadlock_then_run(void)
{
    run_reporting(1, embrace, -EDEADLK);
    run_reporting(1, do_nothing, 0);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    run_reporting(1, embrace, -EDEADLK);
}

TEST(threads_can_be_run_again_after_a_deadlock)
{
    CHECK_EQ(in_child(deadlock_then_run), 0);
    CHECK_REPORTED("^cycle: ");
    CHECK(strstr(strstr(report, "cycle: ") + 1, "cycle: "));
}

/* ---- Threads that an aborted run has left ---- */

enum { GIVEN_UP = 4 };

static unsigned runs;

static void *wait_in_one_run(void *unused)
{
    unsigned begun = runs;
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    MUST_EQ(runs, begun);
    return unused;
}

static void *leave_waiting(void *unused)
{
    for (int i = 0; i < GIVEN_UP; i++)
        spawn(wait_in_one_run, NULL);
    return unused;
}

/* The program should have initialised the semaphore again: its queue still contains waiters of the
 * earlier run. */
static void *post_for_all(void *unused)
{
    for (int i = 0; i < GIVEN_UP; i++)
        gs_semaphore_post(&semaphore);
    gs_thread_yield();
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    for (int i = 0; i < GIVEN_UP; i++)
        MUST_EQ(gs_semaphore_wait(&semaphore, 0), 0);
    return unused;
}

static void give_up_then_post(unsigned workers)
{
    struct gs_threads_options options = {.workers = workers, .is_silent = true};
    runs = 1;
    MUST_EQ(gs_threads_run(&options, leave_waiting, NULL, NULL), -EDEADLK);
    runs = 2;
    /* Another size class, so that their stacks are not overwritten. */
    options.stack_size = (size_t)16 << 10;
    MUST_EQ(gs_threads_run(&options, post_for_all, NULL, NULL), 0);
}

RUN(give_up_then_post_on_one, give_up_then_post(1))
RUN(give_up_then_post_on_three, give_up_then_post(3))

TEST(threads_left_by_an_aborted_run_are_not_resumed_in_the_next_one)
{
    CHECK_EQ(in_child(give_up_then_post_on_one), 0);
    CHECK_EQ(in_child(give_up_then_post_on_three), 0);
}

/* ---- Other cycles ---- */

static void *mix(void *unused)
{
    spawn_mixed_cycle(4);
    meet();
    join(one);
    return unused;
}

TEST(cycle_may_lead_through_locks_of_several_kinds_and_a_join)
{
    check_deadlock(mix, "^cycle: .*\"joined\" waits for mutex of \"writer\"",
                   "^cycle: .*\"reader\" waits for join of \"joined\"");
    CHECK_REPORTED("^cycle: .*\"writer\" waits for writer lock of \"reader\"");
}

static void *join_other(void *unused)
{
    meet();
    join(other);
    return unused;
}

static void *join_one(void *unused)
{
    meet();
    join(one);
    return unused;
}

static void *join_round(void *unused)
{
    barrier.threads = 3;
    one = spawn_named("one", join_other, NULL);
    other = spawn_named("other", join_one, NULL);
    meet();
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    return unused;
}

TEST(threads_that_join_each_other_are_a_cycle)
{
    check_deadlock(join_round,
                   "^cycle: (\"one\" waits for join of \"other\"|\"other\" waits for join of "
                   "\"one\"), ",
                   "\"first\": has waited [0-9.]+ ms for semaphore at ");
}

static void run_again(void *unused)
{
    gs_once(&once, run_again, unused);
}

static void *run_once(void *unused)
{
    gs_once(&once, run_again, NULL);
    return unused;
}

static void *write_twice(void *unused)
{
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    return unused;
}

static void *block_themselves(void *unused)
{
    spawn_named("writer", write_twice, NULL);
    join(spawn_named("initialiser", run_once, NULL));
    return unused;
}

TEST(thread_that_waits_for_itself_is_a_cycle)
{
    check_deadlock(block_themselves, "^cycle: \"initialiser\" waits for once of \"initialiser\"$",
                   "^cycle: \"writer\" waits for reader lock of \"writer\"$");
}

static void *leave_locked(void *unused)
{
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    return unused;
}

static void *inherit(void *unused)
{
    MUST_EQ(gs_thread_park(GS_NEVER), 0);
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    return unused;
}

static void *leave_behind(void *unused)
{
    one = spawn_named("heir", inherit, NULL);
    join(spawn_named("leaver", leave_locked, NULL));
    gs_thread_unpark(one);
    join(one);
    return unused;
}

TEST(mutex_of_a_thread_that_has_ended_is_reported)
{
    check_deadlock(leave_behind,
                   "^stranded: \"heir\" waits for mutex of \"leaver\", which has "
                   "ended$",
                   "\"heir\": has waited [0-9.]+ ms for mutex at ");
}

static void *wait_for_nothing(void *unused)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    return unused;
}

TEST(waits_without_a_known_holder_are_listed_without_a_cycle)
{
    check_deadlock(wait_for_nothing, "\"first\": has waited [0-9.]+ ms for semaphore at ",
                   "^ +wait_for_nothing \\(");
    CHECK(!is_reported("^cycle"));
}

/* ---- While deadlines pass ---- */

enum { PAIRS = 300 };
static struct gs_thread *pairs[2 * PAIRS];
static struct gs_semaphore all_exist;

/* The wait ends early, but its worker knows the deadline until that has passed. */
static void *join_partner(void *number)
{
    int i = (int)(intptr_t)number;
    uint64_t delay_ns = 15 * GS_MILLISECOND + (uint64_t)(i * 7919 % (2 * PAIRS)) * 100000;
    MUST_EQ(gs_semaphore_wait(&all_exist, GS_NEVER), 0);
    MUST(gs_semaphore_wait(&semaphore, after(delay_ns)) != -ECANCELED);
    join(pairs[i ^ 1]);
    return number;
}

static void post_to_all(struct gs_semaphore *to)
{
    for (int i = 0; i < 2 * PAIRS; i++)
        gs_semaphore_post(to);
    MUST_EQ(gs_thread_sleep(after(10 * GS_MILLISECOND)), 0);
}

/* The first worker becomes idle last, and reports; the timer of the other expires meanwhile. */
static void *leave_pairs(void *unused)
{
    const struct gs_thread_attributes on_second = {.worker = 2};
    for (int i = 0; i < 2 * PAIRS; i++)
        MUST_EQ(gs_thread_spawn(&on_second, join_partner, (void *)(intptr_t)i, &pairs[i]), 0);
    post_to_all(&all_exist);
    post_to_all(&semaphore);
    return unused;
}

RUN(run_pairs, run_reporting(2, leave_pairs, -EDEADLK))

TEST(all_cycles_are_reported_though_deadlines_of_former_waits_pass_meanwhile)
{
    int cycles = 0;
    CHECK_EQ(in_child(run_pairs), 0);
    for (const char *at = report; (at = strstr(at, "\ncycle: ")); at++)
        cycles++;
    CHECK_EQ(cycles, PAIRS);
}

/* Its deadline is still among those of the worker when it waits without one. */
static void *wait_after_a_deadline(void *unused)
{
    MUST_EQ(gs_thread_park(after(3600 * GS_SECOND)), 0);
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    return unused;
}

static void *leave_after_a_deadline(void *unused)
{
    struct gs_thread *thread = spawn(wait_after_a_deadline, NULL);
    gs_thread_yield();
    gs_thread_unpark(thread);
    return unused;
}

static void *sleep_shortly(void *unused)
{
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    return unused;
}

static void *sleep_together(void *unused)
{
    struct gs_thread *threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = spawn(sleep_shortly, NULL);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    return unused;
}

static void run_after_a_deadlock(void)
{
    run_reporting(1, leave_after_a_deadline, -EDEADLK);
    run_with(1, sleep_together);
}

TEST(threads_on_the_stacks_that_a_deadlock_has_left_have_no_deadlines_yet)
{
    CHECK_EQ(in_child(run_after_a_deadlock), 0);
}
