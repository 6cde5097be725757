/* Wake-ups, deadlines and closing at the same time, on several workers: nothing may be counted
 * twice or lost. */
#include "tests/thread/fixture.h"

enum { THREADS = 6, ROUNDS = 400 };

static struct gs_semaphore semaphore;
static struct gs_mutex mutex;
static struct gs_cond cond;
static struct gs_rwlock rwlock;
static struct gs_barrier barrier;
static struct gs_channel *channels[2];
static atomic_int counts[4];
static int held;

static struct gs_thread *spawn_as(unsigned number, gs_thread_fn *fn, void *argument)
{
    const struct gs_thread_attributes attributes = {.migrates = number % 2};
    struct gs_thread *thread = NULL;
    MUST_EQ(gs_thread_spawn(&attributes, fn, argument, &thread), 0);
    return thread;
}

static void in_threads(gs_thread_fn *fn)
{
    struct gs_thread *threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        threads[i] = spawn_as(i, fn, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < THREADS; i++)
        join(threads[i]);
}

/* A deadline at about the time of a wake-up. */
static uint64_t soon(unsigned i)
{
    return after((uint64_t)(i % 7) * 10 * GS_MICROSECOND);
}

static void add(int index, int n)
{
    atomic_fetch_add(&counts[index], n);
}

/* Resets the state of the last test. */
static void clear(void)
{
    for (int i = 0; i < 4; i++)
        atomic_store(&counts[i], 0);
}

static void *post_or_wait(void *number)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        if ((uintptr_t)number % 2) {
            gs_semaphore_post(&semaphore);
            gs_thread_yield();
            continue;
        }
        int err = gs_semaphore_wait(&semaphore, soon(i));
        MUST(!err || err == -ETIMEDOUT);
        add(0, !err);
    }
    return NULL;
}

THREAD_TEST(post_and_deadline_at_the_same_time_count_once, run_both)
{
    clear();
    semaphore = (struct gs_semaphore){0};
    in_threads(post_or_wait);
    MUST_EQ(atomic_load(&counts[0]) + (int)semaphore.count, THREADS / 2 * ROUNDS);
}

static void *lock_soon(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < ROUNDS; i++) {
        int err = gs_mutex_lock(&mutex, i % 3 ? soon(i) : GS_NEVER);
        if (err) {
            MUST_EQ(err, -ETIMEDOUT);
            continue;
        }
        MUST_EQ(held++, 0);
        if (i % 5 == 0)
            gs_thread_yield();
        MUST_EQ(--held, 0);
        MUST(gs_mutex_is_owned(&mutex));
        gs_mutex_unlock(&mutex);
    }
    return NULL;
}

THREAD_TEST(mutex_whose_waiters_time_out_is_still_held_by_one_and_free_at_the_end, run_both)
{
    in_threads(lock_soon);
    MUST_EQ(gs_mutex_lock(&mutex, 0), 0);
    gs_mutex_unlock(&mutex);
}

static void *wait_for_signal(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < ROUNDS; i++) {
        gs_mutex_lock(&mutex, GS_NEVER);
        int err = gs_cond_wait(&cond, &mutex, soon(i));
        MUST(!err || err == -ETIMEDOUT);
        MUST(gs_mutex_is_owned(&mutex));
        gs_mutex_unlock(&mutex);
        if (i % 2)
            gs_cond_signal(&cond);
        else
            gs_cond_broadcast(&cond);
    }
    return NULL;
}

THREAD_TEST(condition_signalled_at_its_deadline_has_no_waiters_left, run_both)
{
    in_threads(wait_for_signal);
    MUST(!cond.waiting.first);
}

static void *enter_soon(void *number)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        bool writes = (i + (uintptr_t)number) % 3 == 0;
        int err = writes ? gs_rwlock_wrlock(&rwlock, soon(i)) : gs_rwlock_rdlock(&rwlock, soon(i));
        if (err) {
            MUST_EQ(err, -ETIMEDOUT);
            continue;
        }
        add(writes, 1);
        gs_thread_yield();
        MUST(atomic_load(&counts[1]) <= 1);
        MUST(!writes || !atomic_load(&counts[0]));
        add(writes, -1);
        gs_rwlock_unlock(&rwlock);
    }
    return NULL;
}

THREAD_TEST(reader_writer_lock_whose_waiters_time_out_is_granted_to_the_others, run_both)
{
    clear();
    in_threads(enter_soon);
    MUST_EQ(gs_rwlock_wrlock(&rwlock, 0), 0);
    gs_rwlock_unlock(&rwlock);
}

/* A thread that has timed out has not arrived, so exactly three threads pass each time the barrier
 * opens. */
static void *meet_soon(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < ROUNDS; i++) {
        int result = gs_barrier_wait(&barrier, soon(i));
        MUST(result == 0 || result == 1 || result == -ETIMEDOUT);
        add(0, result >= 0);
        add(1, result == 1);
    }
    return NULL;
}

THREAD_TEST(barrier_opens_for_exactly_as_many_as_came, run_both)
{
    clear();
    barrier = (struct gs_barrier){.threads = 3};
    in_threads(meet_soon);
    MUST_EQ(atomic_load(&counts[0]), 3 * atomic_load(&counts[1]));
    MUST_EQ(barrier.arrived, 0);
}

/* ---- Channels ---- */

static void open_channels(size_t capacity)
{
    for (int i = 0; i < 2; i++)
        MUST_EQ(gs_channel_new(sizeof(int), capacity, &channels[i]), 0);
}

static void free_channels(void)
{
    for (int i = 0; i < 2; i++)
        gs_channel_free(channels[i]);
}

static void *select_or_send(void *number)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        int item = 1;
        bool sends = (uintptr_t)number % 2;
        struct gs_select cases[] = {
            {.channel = channels[i % 2], .receive = &item, .send = sends ? &item : NULL},
            {.channel = channels[!(i % 2)], .receive = &item, .send = sends ? &item : NULL}};
        int index = gs_select(cases, 2, soon(i));
        MUST(index == 0 || index == 1 || index == -ETIMEDOUT);
        if (index >= 0)
            MUST_EQ(cases[index].result, 0);
        add(sends, index >= 0);
    }
    return NULL;
}

static void select_and_send(size_t capacity)
{
    int left = 0, item;
    clear();
    open_channels(capacity);
    in_threads(select_or_send);
    for (int i = 0; i < 2; i++)
        while (!gs_channel_receive(channels[i], &item, 0))
            left++;
    MUST_EQ(atomic_load(&counts[0]) + left, atomic_load(&counts[1]));
    free_channels();
}

static void *select_unbuffered(void *unused)
{
    select_and_send(0);
    return unused;
}

static void *select_buffered(void *unused)
{
    select_and_send(2);
    return unused;
}

TEST(selects_with_selects_and_deadlines_pass_each_item_once)
{
    run_both(select_unbuffered);
    run_both(select_buffered);
}

static void *send_or_receive_until_closed(void *number)
{
    int item = 1, err = 0;
    bool sends = (uintptr_t)number % 2;
    while (!err) {
        err = sends ? gs_channel_send(channels[0], &item, GS_NEVER)
                    : gs_channel_receive(channels[0], &item, GS_NEVER);
        add(sends, !err);
        gs_thread_yield();
    }
    MUST_EQ(err, -EPIPE);
    return NULL;
}

THREAD_TEST(channel_closed_amid_sends_and_receives_loses_no_item, run_both)
{
    for (unsigned round = 0; round < 20; round++) {
        struct gs_thread *threads[THREADS];
        clear();
        open_channels(round % 3);
        for (unsigned i = 0; i < THREADS; i++)
            threads[i] = spawn_as(i / 2, send_or_receive_until_closed, (void *)(uintptr_t)i);
        (void)gs_thread_sleep(after(200 * GS_MICROSECOND));
        gs_channel_close(channels[0]);
        for (unsigned i = 0; i < THREADS; i++)
            join(threads[i]);
        MUST_EQ(atomic_load(&counts[0]), atomic_load(&counts[1]));
        free_channels();
    }
}
