#include "tests/thread/fixture.h"

static struct gs_mutex mutex;
static struct gs_cond cond;
static struct gs_rwlock rwlock;
static struct gs_semaphore semaphore;
static struct gs_barrier barrier;
static struct gs_wait_group group;
static int shared;

/* Run the function in `count` threads, and wait for them. */
static void in_threads(unsigned count, gs_thread_fn *fn)
{
    struct gs_thread *threads[16];
    for (unsigned i = 0; i < count; i++)
        threads[i] = spawn(fn, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < count; i++)
        join(threads[i]);
}

static void *count_under_mutex(void *unused)
{
    (void)unused;
    for (int i = 0; i < 300; i++) {
        MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
        MUST(gs_mutex_is_owned(&mutex));
        int before = shared;
        if (i % 3 == 0)
            gs_thread_yield();
        shared = before + 1;
        gs_mutex_unlock(&mutex);
    }
    return NULL;
}

THREAD_TEST(mutex_is_held_by_one_thread_at_a_time, run_both)
{
    shared = 0;
    in_threads(8, count_under_mutex);
    MUST_EQ(shared, 2400);
}

static void *lock_and_log(void *letter)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    log_call(letter);
    gs_mutex_unlock(&mutex);
    return NULL;
}

THREAD_TEST(mutex_is_handed_on_in_order_of_arrival, run_on_one)
{
    clear_calls();
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    struct gs_thread *a = spawn(lock_and_log, "a"), *b = spawn(lock_and_log, "b");
    gs_thread_yield();
    gs_mutex_unlock(&mutex);
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    log_call("c");
    gs_mutex_unlock(&mutex);
    join(a);
    join(b);
    MUST(!strcmp(calls, "abc"));
}

static void *lock_late(void *unused)
{
    (void)unused;
    MUST_EQ(gs_mutex_lock(&mutex, 0), -ETIMEDOUT);
    MUST_EQ(gs_mutex_lock(&mutex, after(2 * GS_MILLISECOND)), -ETIMEDOUT);
    return NULL;
}

THREAD_TEST(locking_a_mutex_times_out_at_the_deadline, run_both)
{
    MUST_EQ(gs_mutex_lock(&mutex, 0), 0);
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), -EDEADLK);
    in_threads(3, lock_late);
    gs_mutex_unlock(&mutex);
    MUST_EQ(gs_mutex_lock(&mutex, 0), 0);
    gs_mutex_unlock(&mutex);
}

THREAD(consume)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    while (!shared)
        MUST_EQ(gs_cond_wait(&cond, &mutex, after(10 * GS_SECOND)), 0);
    shared--;
    gs_mutex_unlock(&mutex);
}

THREAD_TEST(condition_wakes_the_waiting_threads, run_both)
{
    struct gs_thread *threads[5];
    shared = 0;
    for (int i = 0; i < 5; i++)
        threads[i] = spawn(consume, NULL);
    for (int i = 0; i < 3; i++) {
        MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
        shared++;
        gs_cond_signal(&cond);
        gs_mutex_unlock(&mutex);
        gs_thread_yield();
    }
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    shared += 2;
    gs_cond_broadcast(&cond);
    gs_mutex_unlock(&mutex);
    for (int i = 0; i < 5; i++)
        join(threads[i]);
    MUST_EQ(shared, 0);
}

THREAD_TEST(condition_wait_times_out_at_the_deadline_and_owns_its_mutex, run_both)
{
    MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
    MUST_EQ(gs_cond_wait(&cond, &mutex, after(2 * GS_MILLISECOND)), -ETIMEDOUT);
    MUST(gs_mutex_is_owned(&mutex));
    MUST_EQ(gs_cond_wait(&cond, &mutex, 0), -ETIMEDOUT);
    gs_mutex_unlock(&mutex);
    gs_cond_signal(&cond);
}

static int readers, writers;

static void *read_or_write(void *number)
{
    for (int i = 0; i < 100; i++) {
        bool is_writer = ((uintptr_t)number + (uintptr_t)i) % 4 == 0;
        MUST_EQ(is_writer ? gs_rwlock_wrlock(&rwlock, GS_NEVER)
                          : gs_rwlock_rdlock(&rwlock, GS_NEVER),
                0);
        int *count = is_writer ? &writers : &readers;
        __atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
        gs_thread_yield();
        int now_writing = __atomic_load_n(&writers, __ATOMIC_SEQ_CST);
        MUST(is_writer ? now_writing == 1 && !__atomic_load_n(&readers, __ATOMIC_SEQ_CST)
                       : !now_writing);
        __atomic_fetch_sub(count, 1, __ATOMIC_SEQ_CST);
        gs_rwlock_unlock(&rwlock);
    }
    return NULL;
}

THREAD_TEST(writer_is_alone_and_readers_are_among_themselves, run_both)
{
    in_threads(8, read_or_write);
}

static void *write_late(void *unused)
{
    MUST_EQ(gs_rwlock_wrlock(&rwlock, after(5 * GS_MILLISECOND)), -ETIMEDOUT);
    return unused;
}

THREAD(read_behind)
{
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    log_call("r");
    gs_rwlock_unlock(&rwlock);
}

THREAD_TEST(reader_waits_behind_a_writer_until_that_gives_up, run_on_one)
{
    clear_calls();
    MUST_EQ(gs_rwlock_rdlock(&rwlock, GS_NEVER), 0);
    struct gs_thread *writer = spawn(write_late, NULL);
    gs_thread_yield();
    struct gs_thread *reader = spawn(read_behind, NULL);
    gs_thread_yield();
    MUST(!calls[0]);
    join(writer);
    join(reader);
    MUST(!strcmp(calls, "r"));
    gs_rwlock_unlock(&rwlock);
    MUST_EQ(gs_rwlock_wrlock(&rwlock, 0), 0);
    gs_rwlock_unlock(&rwlock);
}

static void *take_one(void *unused)
{
    MUST_EQ(gs_semaphore_wait(&semaphore, GS_NEVER), 0);
    return unused;
}

THREAD_TEST(semaphore_lets_as_many_pass_as_were_posted, run_both)
{
    struct gs_thread *threads[6];
    semaphore.count = 2;
    for (int i = 0; i < 6; i++)
        threads[i] = spawn(take_one, NULL);
    gs_thread_yield();
    for (int i = 0; i < 4; i++)
        gs_semaphore_post(&semaphore);
    for (int i = 0; i < 6; i++)
        join(threads[i]);
    MUST_EQ(gs_semaphore_wait(&semaphore, 0), -ETIMEDOUT);
    MUST_EQ(gs_semaphore_wait(&semaphore, after(GS_MILLISECOND)), -ETIMEDOUT);
    gs_semaphore_post(&semaphore);
    MUST_EQ(gs_semaphore_wait(&semaphore, 0), 0);
}

static struct gs_once once;

static void slowly(void *unused)
{
    (void)unused;
    (void)gs_thread_sleep(after(2 * GS_MILLISECOND));
    shared++;
}

static void *call_once(void *unused)
{
    (void)unused;
    gs_once(&once, slowly, NULL);
    MUST_EQ(shared, 1);
    return NULL;
}

THREAD_TEST(once_runs_once_and_all_wait_for_it, run_both)
{
    shared = 0;
    once = (struct gs_once){0};
    in_threads(5, call_once);
    MUST_EQ(shared, 1);
}

static void *meet(void *unused)
{
    (void)unused;
    for (int round = 1; round <= 20; round++) {
        __atomic_fetch_add(&shared, 1, __ATOMIC_SEQ_CST);
        int last = gs_barrier_wait(&barrier, GS_NEVER);
        MUST(last == 0 || last == 1);
        MUST(__atomic_load_n(&shared, __ATOMIC_SEQ_CST) >= 4 * round);
        __atomic_fetch_add(&writers, last, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

THREAD_TEST(barrier_opens_when_all_have_arrived, run_both)
{
    shared = writers = 0;
    barrier = (struct gs_barrier){.threads = 4};
    in_threads(4, meet);
    MUST_EQ(writers, 20);
    MUST_EQ(gs_barrier_wait(&barrier, after(GS_MILLISECOND)), -ETIMEDOUT);
    MUST_EQ(barrier.arrived, 0);
    writers = 0;
}

static void *work(void *unused)
{
    gs_thread_yield();
    __atomic_fetch_add(&shared, 1, __ATOMIC_SEQ_CST);
    gs_wait_group_done(&group);
    return unused;
}

THREAD_TEST(wait_group_waits_for_as_many_as_were_added, run_both)
{
    shared = 0;
    MUST_EQ(gs_wait_group_wait(&group, 0), 0);
    gs_wait_group_add(&group, 10);
    for (int i = 0; i < 10; i++)
        MUST_EQ(gs_thread_spawn(NULL, work, NULL, NULL), 0);
    MUST_EQ(gs_wait_group_wait(&group, GS_NEVER), 0);
    MUST_EQ(__atomic_load_n(&shared, __ATOMIC_SEQ_CST), 10);
    gs_wait_group_add(&group, 1);
    MUST_EQ(gs_wait_group_wait(&group, after(GS_MILLISECOND)), -ETIMEDOUT);
    gs_wait_group_done(&group);
}
