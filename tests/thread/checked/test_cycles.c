/* Deadlocks among some of the threads, which are reported when the last of them begins to wait. */
#include "tests/thread/report/deadlocking.h"

#include <sys/ioctl.h>

static unsigned worker_count;
static gs_thread_fn *deadlocking;
static int expected;

static void run_deadlocking(void)
{
    run_reporting(worker_count, deadlocking, expected);
}

/* Run it with one worker, and with three. `line` must be reported; NULL: no cycle at all. */
static void check_reported(gs_thread_fn *fn, int result, const char *line)
{
    for (worker_count = 1; worker_count < 4; worker_count += 2) {
        deadlocking = fn;
        expected = result;
        CHECK_EQ(in_child(run_deadlocking), 0);
        if (line)
            CHECK_REPORTED(line);
        else
            CHECK(!strstr(report, "deadlock"));
    }
}

/* ---- Two mutexes ---- */

static uint64_t deadline_ns;

static void *lock_ab(void *unused)
{
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    meet();
    MUST_EQ(gs_mutex_lock(&b, deadline_ns), -ETIMEDOUT);
    gs_mutex_unlock(&a);
    return unused;
}

static void *lock_ba(void *unused)
{
    MUST_EQ(gs_mutex_lock(&b, GS_NEVER), 0);
    meet();
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    gs_mutex_unlock(&a);
    gs_mutex_unlock(&b);
    return unused;
}

static void *embrace(void *unused)
{
    deadline_ns = GS_NEVER;
    barrier.threads = 2;
    spawn_named("left", lock_ab, NULL);
    spawn_named("right", lock_ba, NULL);
    return unused;
}

#define LEFT "\"left\" waits for mutex of \"right\""
#define RIGHT "\"right\" waits for mutex of \"left\""

TEST(deadlock_of_two_threads_is_reported_once)
{
    check_reported(embrace, -EDEADLK,
                   "^deadlock among 2 threads: (" LEFT ", " RIGHT "|" RIGHT ", " LEFT ")$");
    CHECK(!strstr(strstr(report, "deadlock among") + 1, "deadlock among"));
}

/* The others go on: they end the process. */
static void *embrace_beside_others(void *unused)
{
    embrace(unused);
    for (int i = 0; i < 100; i++)
        gs_thread_yield();
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    _exit(0);
}

TEST(other_threads_go_on_beside_a_deadlock)
{
    check_reported(embrace_beside_others, -EDEADLK, "");
}

/* ---- Other cycles ---- */

static void *mix(void *unused)
{
    spawn_mixed_cycle(3);
    return unused;
}

TEST(deadlock_may_lead_through_locks_of_several_kinds_and_a_join)
{
    static const char *const waits[] = {"\"joined\" waits for mutex of \"writer\"",
                                        "\"reader\" waits for join of \"joined\"",
                                        "\"writer\" waits for writer lock of \"reader\""};
    for (int i = 0; i < 3; i++) {
        char line[128];
        snprintf(line, sizeof line, "^deadlock among 3 threads: .*%s", waits[i]);
        check_reported(mix, -EDEADLK, line);
    }
}

static void *wait_for_once(void *unused)
{
    gs_once(&once, NULL, unused);
    return unused;
}

static void join_waiting(void *unused)
{
    (void)unused;
    join(spawn_named("waiting", wait_for_once, NULL));
}

static void *run_once(void *unused)
{
    gs_once(&once, join_waiting, unused);
    return unused;
}

static void *initialise(void *unused)
{
    spawn_named("runner", run_once, NULL);
    return unused;
}

TEST(deadlock_may_lead_through_the_function_of_a_once)
{
    check_reported(initialise, -EDEADLK,
                   "^deadlock among 2 threads: .*\"waiting\" waits for once of \"runner\"");
}

static char user_stack[1 << 16] __attribute__((aligned(64)));

static void *read_and_write(void *unused)
{
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    return unused;
}

static void *block_itself(void *unused)
{
    const struct gs_thread_attributes attributes = {
        .name = "writer", .stack = user_stack, .stack_size = sizeof user_stack};
    MUST_EQ(gs_thread_spawn(&attributes, read_and_write, NULL, NULL), 0);
    return unused;
}

TEST(thread_that_waits_for_itself_is_reported)
{
    check_reported(block_itself, -EDEADLK,
                   "^deadlock of one thread: \"writer\" waits for writer lock of \"writer\"$");
}

/* ---- No deadlock ---- */

static void *embrace_for_a_while(void *unused)
{
    deadline_ns = after(5 * GS_MILLISECOND);
    barrier.threads = 2;
    spawn_named("left", lock_ab, NULL);
    join(spawn_named("right", lock_ba, NULL));
    return unused;
}

TEST(cycle_in_which_a_wait_has_a_deadline_is_no_deadlock)
{
    check_reported(embrace_for_a_while, 0, NULL);
}

/* A reader behind a writer that waits until a deadline: not even the reader that holds the lock,
 * which waits for the other one, is deadlocked. */
static void *read_behind_writer(void *unused)
{
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    gs_rwlock_unlock(&rwlock);
    return unused;
}

static void *write_for_a_while(void *unused)
{
    MUST_EQ(gs_rwlock_wrlock(&rwlock, after(5 * GS_MILLISECOND)), -ETIMEDOUT);
    return unused;
}

static void *wait_behind_writer(void *unused)
{
    const struct gs_thread_attributes here = {.worker = 1};
    struct gs_thread *writer, *reader;
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    MUST_EQ(gs_thread_spawn(&here, write_for_a_while, NULL, &writer), 0);
    MUST_EQ(gs_thread_spawn(&here, read_behind_writer, NULL, &reader), 0);
    join(reader);
    gs_rwlock_unlock(&rwlock);
    join(writer);
    return unused;
}

TEST(reader_behind_a_writer_with_a_deadline_is_not_deadlocked)
{
    check_reported(wait_behind_writer, 0, NULL);
}

/* A wait that was canceled ends. */
static void *join_canceled(void *unused)
{
    MUST_EQ(gs_thread_join(other, GS_NEVER, NULL), -ECANCELED);
    return unused;
}

static void *cancel_and_join(void *unused)
{
    gs_thread_yield();
    gs_thread_cancel(one);
    join(one);
    return unused;
}

static void *join_in_turn(void *unused)
{
    const struct gs_thread_attributes here = {.worker = 1};
    MUST_EQ(gs_thread_spawn(&here, cancel_and_join, NULL, &other), 0);
    MUST_EQ(gs_thread_spawn(&here, join_canceled, NULL, &one), 0);
    return unused;
}

TEST(canceled_thread_is_in_no_deadlock)
{
    check_reported(join_in_turn, 0, NULL);
}

/* The thread that has run the function of a once may wait for those that it has just woken. */
static void let_wait(void *unused)
{
    (void)unused;
    gs_thread_yield();
}

static void *initialise_and_join(void *unused)
{
    const struct gs_thread_attributes here = {.worker = 1};
    MUST_EQ(gs_thread_spawn(&here, wait_for_once, NULL, &other), 0);
    gs_once(&once, let_wait, unused);
    join(other);
    return unused;
}

TEST(thread_that_was_woken_by_a_once_waits_for_nobody)
{
    check_reported(initialise_and_join, 0, NULL);
}

/* ---- A wait that ends while the cycle is reported ---- */

#define FIRST_PART "deadlock among 2 threads:"

static int reports[2]; /* a pipe with room for the first part */

static void *write_until_canceled(void *unused)
{
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), -ECANCELED);
    gs_mutex_unlock(&a);
    return unused;
}

static void *close_cycle(void *unused)
{
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    gs_thread_yield();
    MUST_EQ(gs_mutex_lock(&a, GS_NEVER), 0);
    gs_mutex_unlock(&a);
    gs_rwlock_unlock(&rwlock);
    return unused;
}

static void *cancel_when_reported(void *unused)
{
    int size = fcntl(reports[0], F_GETPIPE_SZ), used = 0;
    char last = 0;
    while (used < size)
        MUST_EQ(ioctl(reports[0], FIONREAD, &used), 0);
    gs_thread_cancel(one);
    while (last != '\n')
        MUST_EQ(read(reports[0], &last, 1), 1);
    return unused;
}

static void *cancel_one_of_cycle(void *unused)
{
    const struct gs_thread_attributes here = {.worker = 1}, there = {.worker = 2};
    struct gs_thread *canceler;
    MUST_EQ(gs_thread_spawn(&here, close_cycle, NULL, &other), 0);
    MUST_EQ(gs_thread_spawn(&here, write_until_canceled, NULL, &one), 0);
    MUST_EQ(gs_thread_spawn(&there, cancel_when_reported, NULL, &canceler), 0);
    join(one);
    join(other);
    join(canceler);
    return unused;
}

static void run_canceling(void)
{
    static char bytes[1 << 20];
    MUST_EQ(pipe(reports), 0);
    size_t n = (size_t)fcntl(reports[0], F_GETPIPE_SZ) - strlen(FIRST_PART);
    MUST_EQ(write(reports[1], bytes, n), n);
    report_out = reports[1];
    run_reporting(2, cancel_one_of_cycle, 0);
}

TEST(thread_of_a_deadlock_may_be_canceled_while_it_is_reported)
{
    CHECK_EQ(in_child(run_canceling), 0);
}

/* ---- Much contention ---- */

enum { CONTENDERS = 12, TURNS = 300, MUTEXES = 3 };

static struct gs_mutex mutexes[MUTEXES];

/* Locks two of three mutexes, in the order that avoids deadlocks; those that migrate, too. */
static void *contend(void *argument)
{
    unsigned n = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < TURNS; i++) {
        unsigned first = (i + n) % (MUTEXES - 1),
                 second = first + 1 + (i / 3) % (MUTEXES - 1 - first);
        MUST_EQ(gs_mutex_lock(&mutexes[first], GS_NEVER), 0);
        if (i % 4)
            gs_thread_yield();
        MUST_EQ(gs_mutex_lock(&mutexes[second], GS_NEVER), 0);
        MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
        gs_rwlock_unlock(&rwlock);
        gs_mutex_unlock(&mutexes[second]);
        if (i % 3)
            gs_thread_yield();
        gs_mutex_unlock(&mutexes[first]);
    }
    return argument;
}

static void *contend_all(void *unused)
{
    for (unsigned i = 0; i < CONTENDERS; i++) {
        const struct gs_thread_attributes attributes = {.name = "contender", .migrates = i % 2};
        MUST_EQ(gs_thread_spawn(&attributes, contend, (void *)(uintptr_t)i, NULL), 0);
    }
    return unused;
}

TEST(threads_that_contend_for_locks_without_a_deadlock_are_not_reported)
{
    check_reported(contend_all, 0, NULL);
}
