/* Cancellation of each kind of wait. */
#include "tests/thread/fixture.h"

enum { ROUNDS = 400 };

static struct gs_semaphore semaphore;
static struct gs_mutex mutex;
static struct gs_cond cond;
static struct gs_rwlock rwlock;
static struct gs_barrier barrier;
static struct gs_wait_group group;
static struct gs_channel *channels[2];
static int held;

static struct gs_thread *spawn_as(unsigned number, gs_thread_fn *fn, void *argument)
{
    const struct gs_thread_attributes attributes = {.migrates = number % 2};
    struct gs_thread *thread = NULL;
    MUST_EQ(gs_thread_spawn(&attributes, fn, argument, &thread), 0);
    return thread;
}

typedef int wait_fn(void);

static int wait_semaphore(void)
{
    return gs_semaphore_wait(&semaphore, GS_NEVER);
}
static int wait_cond(void)
{
    gs_mutex_lock(&mutex, GS_NEVER);
    int err = gs_cond_wait(&cond, &mutex, GS_NEVER);
    MUST(gs_mutex_is_owned(&mutex));
    gs_mutex_unlock(&mutex);
    return err;
}
static int wait_cond_alone(void)
{
    return gs_cond_wait(&cond, NULL, GS_NEVER);
}
static int read_lock(void)
{
    return gs_rwlock_rdlock(&rwlock, GS_NEVER);
}
static int write_lock(void)
{
    return gs_rwlock_wrlock(&rwlock, after(60 * GS_SECOND));
}
static int wait_barrier(void)
{
    return gs_barrier_wait(&barrier, GS_NEVER);
}
static int wait_group(void)
{
    return gs_wait_group_wait(&group, GS_NEVER);
}
static int send_item(void)
{
    return gs_channel_send(channels[0], &held, GS_NEVER);
}
static int receive_item(void)
{
    int item;
    return gs_channel_receive(channels[0], &item, after(60 * GS_SECOND));
}
static int select_item(void)
{
    int item;
    struct gs_select cases[] = {{.channel = channels[0], .receive = &item},
                                {.channel = channels[1], .receive = &item}};
    return gs_select(cases, 2, GS_NEVER);
}

static wait_fn *const waits[] = {wait_semaphore, wait_cond,    wait_cond_alone, read_lock,
                                 write_lock,     wait_barrier, wait_group,      send_item,
                                 receive_item,   select_item};
enum { WAITS = sizeof waits / sizeof *waits };

static void *call_wait(void *number)
{
    return (void *)(intptr_t)waits[(uintptr_t)number]();
}

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

/* The events for which the threads wait never occur. */
static void block_all(void)
{
    open_channels(0);
    barrier = (struct gs_barrier){.threads = 2};
    semaphore = (struct gs_semaphore){0};
    MUST_EQ(gs_rwlock_wrlock(&rwlock, 0), 0);
    gs_wait_group_add(&group, 1);
}

static void unblock_all(void)
{
    gs_wait_group_done(&group);
    gs_rwlock_unlock(&rwlock);
    MUST(!semaphore.waiting.first && !cond.waiting.first && !rwlock.waiting.first &&
         !barrier.waiting.first && !group.waiting.first);
    MUST_EQ(barrier.arrived, 0);
    free_channels();
}

THREAD_TEST(canceled_wait_of_any_kind_returns_and_leaves_nothing_behind, run_both)
{
    block_all();
    for (unsigned i = 0; i < 6 * WAITS; i++) {
        struct gs_thread *thread = spawn_as(i, call_wait, (void *)(uintptr_t)(i / 6));
        if (i % 3 == 1)
            gs_thread_yield();
        if (i % 3 == 2)
            MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
        gs_thread_cancel(thread);
        MUST_EQ((intptr_t)join(thread), -ECANCELED);
    }
    unblock_all();
}

static void *sleep_in_once(void *unused)
{
    (void)unused;
    MUST_EQ(gs_thread_sleep(after(5 * GS_MILLISECOND)), 0);
    return NULL;
}

static void call_sleep(void *unused)
{
    sleep_in_once(unused);
    held = 7;
}

static void *call_once(void *once)
{
    gs_once(once, call_sleep, NULL);
    MUST_EQ(held, 7);
    return NULL;
}

THREAD_TEST(waiting_for_once_is_not_interrupted, run_on_one)
{
    struct gs_once once = {0};
    held = 0;
    struct gs_thread *first = spawn(call_once, &once);
    gs_thread_yield();
    struct gs_thread *second = spawn(call_once, &once);
    gs_thread_yield();
    gs_thread_cancel(second);
    join(first);
    join(second);
    held = 0;
}

THREAD_TEST(post_and_cancellation_at_the_same_time_count_once, run_both)
{
    int woken = 0;
    semaphore = (struct gs_semaphore){0};
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct gs_thread *thread = spawn_as(i, call_wait, 0);
        gs_thread_yield();
        if (i % 2)
            gs_semaphore_post(&semaphore);
        gs_thread_cancel(thread);
        if (!(i % 2))
            gs_semaphore_post(&semaphore);
        intptr_t err = (intptr_t)join(thread);
        MUST(!err || err == -ECANCELED);
        woken += !err;
    }
    MUST_EQ(woken + (int)semaphore.count, ROUNDS);
}
