/* Mutexes, conditions, reader-writer locks, wait groups, barriers and once. */
#include "tests/thread/checked/misuse.h"

static struct gs_mutex mutex;
static struct gs_cond cond;
static struct gs_rwlock rwlock;

/* Run in a thread named "other" to its first wait. */
static void other(gs_thread_fn *fn)
{
    spawn_named("other", fn, NULL);
    gs_thread_yield();
}

static void *hold_mutex(void *unused)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    gs_thread_sleep(after(GS_SECOND));
    gs_mutex_unlock(&mutex);
    return unused;
}

/* ---- Mutexes ---- */

static void *lock_twice(void *unused)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    gs_mutex_lock(&mutex, GS_NEVER);
    return unused;
}

static void *unlock_unlocked(void *unused)
{
    gs_mutex_unlock(&mutex);
    return unused;
}

static void *unlock_of_other(void *unused)
{
    other(hold_mutex);
    gs_mutex_unlock(&mutex);
    return unused;
}

static void *unlock_contended(void *unused)
{
    other(hold_mutex);
    other(hold_mutex);
    gs_mutex_unlock(&mutex);
    return unused;
}

IN_CHILD_RUN(run_lock_twice, lock_twice)
IN_CHILD_RUN(run_unlock_unlocked, unlock_unlocked)
IN_CHILD_RUN(run_unlock_of_other, unlock_of_other)
IN_CHILD_RUN(run_unlock_contended, unlock_contended)

#define OF_OTHER                                                                                   \
    "mutex 0x[0-9a-f]+ is held by thread \"other\", not by the calling thread, \"first\""

TEST(a_mutex_is_not_locked_twice)
{
    CHECK_STOPPED(run_lock_twice, "gs_mutex_lock",
                  "mutex 0x[0-9a-f]+ is held by the calling thread, \"first\", already");
}

TEST(only_the_owner_unlocks_a_mutex)
{
    CHECK_STOPPED(
        run_unlock_unlocked, "gs_mutex_unlock",
        "mutex 0x[0-9a-f]+ is not held by the calling thread, \"first\": it is not locked");
    CHECK_STOPPED(run_unlock_of_other, "gs_mutex_unlock", OF_OTHER);
    CHECK_STOPPED(run_unlock_contended, "gs_mutex_unlock", OF_OTHER);
}

/* ---- Conditions ---- */

static void *wait_without_mutex(void *unused)
{
    MUST_EQ(gs_cond_wait(&cond, &mutex, GS_NEVER), 0);
    return unused;
}

static void *wait_with_mutex_of_other(void *unused)
{
    other(hold_mutex);
    MUST_EQ(gs_cond_wait(&cond, &mutex, GS_NEVER), 0);
    return unused;
}

IN_CHILD_RUN(run_wait_without_mutex, wait_without_mutex)
IN_CHILD_RUN(run_wait_with_mutex_of_other, wait_with_mutex_of_other)

TEST(a_condition_is_waited_for_with_its_mutex_held)
{
    CHECK_STOPPED(
        run_wait_without_mutex, "gs_cond_wait",
        "mutex 0x[0-9a-f]+ is not held by the calling thread, \"first\": it is not locked");
    CHECK_STOPPED(run_wait_with_mutex_of_other, "gs_cond_wait", OF_OTHER);
}

/* ---- Reader-writer locks ---- */

static void *hold_as_writer(void *unused)
{
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    gs_thread_sleep(after(GS_SECOND));
    return unused;
}

static void *hold_as_reader(void *unused)
{
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    gs_thread_sleep(after(GS_SECOND));
    return unused;
}

static void *unlock_free_rwlock(void *unused)
{
    gs_rwlock_unlock(&rwlock);
    return unused;
}

static void *unlock_of_writer(void *unused)
{
    other(hold_as_writer);
    gs_rwlock_unlock(&rwlock);
    return unused;
}

static void *unlock_of_reader(void *unused)
{
    other(hold_as_reader);
    gs_rwlock_unlock(&rwlock);
    return unused;
}

static void *read_as_writer(void *unused)
{
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    return unused;
}

static void *write_twice(void *unused)
{
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    return unused;
}

IN_CHILD_RUN(run_unlock_free_rwlock, unlock_free_rwlock)
IN_CHILD_RUN(run_unlock_of_writer, unlock_of_writer)
IN_CHILD_RUN(run_unlock_of_reader, unlock_of_reader)
IN_CHILD_RUN(run_read_as_writer, read_as_writer)
IN_CHILD_RUN(run_write_twice, write_twice)

TEST(a_reader_writer_lock_is_unlocked_by_a_holder)
{
    const char *of_other = "reader-writer lock 0x[0-9a-f]+ is not held by the calling thread";
    CHECK_STOPPED(run_unlock_free_rwlock, "gs_rwlock_unlock",
                  "reader-writer lock 0x[0-9a-f]+ is not locked");
    CHECK_STOPPED(run_unlock_of_writer, "gs_rwlock_unlock", ".*");
    CHECK_REPORTED(of_other);
    CHECK_STOPPED(run_unlock_of_reader, "gs_rwlock_unlock", ".*");
    CHECK_REPORTED(of_other);
}

TEST(a_writer_does_not_lock_again)
{
    CHECK_STOPPED(run_read_as_writer, "gs_rwlock_rdlock", ".* by the calling thread.*");
    CHECK_STOPPED(run_write_twice, "gs_rwlock_wrlock", ".* by the calling thread.*");
}

/* ---- Wait groups, barriers, once ---- */

static void *done_too_often(void *unused)
{
    struct gs_wait_group group = {.count = 0};
    gs_wait_group_add(&group, 1);
    gs_wait_group_done(&group);
    gs_wait_group_done(&group);
    return unused;
}

static void *wait_at_barrier_for_none(void *unused)
{
    struct gs_barrier barrier = {.threads = 0};
    (void)unused;
    return (void *)(intptr_t)gs_barrier_wait(&barrier, GS_NEVER);
}

static struct gs_once once;

static void once_again(void *unused)
{
    gs_once(&once, once_again, unused);
}

static void *nest_once(void *unused)
{
    gs_once(&once, once_again, unused);
    return unused;
}

IN_CHILD_RUN(run_done_too_often, done_too_often)
IN_CHILD_RUN(run_wait_at_barrier_for_none, wait_at_barrier_for_none)
IN_CHILD_RUN(run_nest_once, nest_once)

TEST(a_wait_group_does_not_go_below_zero)
{
    CHECK_STOPPED(run_done_too_often, "gs_wait_group_done",
                  "wait group 0x[0-9a-f]+ is done already");
}

TEST(a_barrier_is_for_at_least_one_thread)
{
    CHECK_STOPPED(run_wait_at_barrier_for_none, "gs_barrier_wait",
                  "barrier 0x[0-9a-f]+ is for 0 threads");
}

TEST(the_function_of_once_does_not_call_it_again)
{
    CHECK_STOPPED(run_nest_once, "gs_once", "it was called by its own function");
}

/* ---- Correct use ---- */

enum { ROUNDS = 200, THREADS = 4 };

static struct gs_barrier barrier;
static int value;
static struct gs_once counted;

static void count_once(void *count)
{
    ++*(int *)count;
}

static void use_mutex_and_cond(void)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    MUST(gs_mutex_is_owned(&mutex));
    value++;
    if (gs_cond_wait(&cond, &mutex, after(10 * GS_MICROSECOND)))
        gs_cond_signal(&cond);
    gs_mutex_unlock(&mutex);
    MUST(!gs_mutex_is_owned(&mutex));
}

static void use_rwlock(void)
{
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    bool is_nested = !gs_rwlock_rdlock(&rwlock, 0);
    gs_thread_yield();
    if (is_nested)
        gs_rwlock_unlock(&rwlock);
    gs_rwlock_unlock(&rwlock);
    MUST_EQ(gs_rwlock_wrlock(&rwlock, GS_NEVER), 0);
    gs_thread_yield();
    gs_rwlock_unlock(&rwlock);
}

static void *use_all(void *group)
{
    static int count;
    gs_once(&counted, count_once, &count);
    MUST_EQ(count, 1);
    for (int i = 0; i < ROUNDS; i++) {
        use_mutex_and_cond();
        use_rwlock();
        MUST(gs_barrier_wait(&barrier, GS_NEVER) >= 0);
    }
    gs_wait_group_done(group);
    return NULL;
}

THREAD_TEST(correct_use_does_not_stop, run_both)
{
    struct gs_wait_group group = {.count = 0};
    value = 0;
    barrier.threads = THREADS;
    gs_wait_group_add(&group, THREADS);
    for (int i = 0; i < THREADS; i++)
        MUST_EQ(gs_thread_spawn(NULL, use_all, &group, NULL), 0);
    MUST_EQ(gs_wait_group_wait(&group, GS_NEVER), 0);
    MUST_EQ(value, THREADS * ROUNDS);
}
