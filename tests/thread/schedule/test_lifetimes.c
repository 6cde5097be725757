/* A thread that waits at an object may free it as soon as the wait has returned, even if the call
 * that ended the wait has not returned. */
#include "tests/thread/schedule/lifetimes.h"

/* ---- Wait group ---- */

static void add_to_group(struct round *round)
{
    gs_wait_group_add(&round->object->group, kind->helpers);
}

static void wait_for_group(struct round *round)
{
    int err;
    do
        err = gs_wait_group_wait(&round->object->group, until(round));
    while (is_early(err));
    MUST_EQ(err, 0);
    MUST_EQ(atomic_load(&round->begun), kind->helpers);
}

static void be_done(struct round *round, unsigned helper)
{
    (void)helper;
    gs_wait_group_done(&round->object->group);
}

TEST(wait_group_may_be_freed_when_its_wait_has_returned)
{
    struct kind group = {"wait group", add_to_group, wait_for_group, be_done, .helpers = 1};
    test_kind(&group);
    group.helpers = 3;
    test_kind(&group);
    group.companions = 2;
    test_kind(&group);
}

/* ---- Semaphore ---- */

static void wait_for_posts(struct round *round)
{
    for (unsigned i = 0; i < kind->helpers; i++) {
        int err;
        do
            err = gs_semaphore_wait(&round->object->semaphore, until(round));
        while (is_early(err));
        MUST_EQ(err, 0);
        MUST(atomic_load(&round->begun) > i);
    }
}

static void post(struct round *round, unsigned helper)
{
    (void)helper;
    gs_semaphore_post(&round->object->semaphore);
}

TEST(semaphore_may_be_freed_when_its_waits_have_returned)
{
    test_kind(&(struct kind){"semaphore", NULL, wait_for_posts, post, .helpers = 1});
    test_kind(&(struct kind){"semaphore twice", NULL, wait_for_posts, post, .helpers = 2});
}

/* ---- Mutex ---- */

static void lock_after(struct round *round)
{
    int err;
    await(&round->step, 1);
    atomic_store(&round->called, 2);
    do
        err = gs_mutex_lock(&round->object->mutex, until(round));
    while (is_early(err));
    MUST_EQ(err, 0);
    MUST_EQ(atomic_load(&round->step), 2);
    gs_mutex_unlock(&round->object->mutex);
}

static void lock_first(struct round *round, unsigned helper)
{
    (void)helper;
    MUST_EQ(gs_mutex_lock(&round->object->mutex, GS_NEVER), 0);
    atomic_store(&round->step, 1);
    await(&round->called, 2);
    busy_wait(any(round, 8, 64));
    atomic_store(&round->step, 2);
    gs_mutex_unlock(&round->object->mutex);
}

TEST(mutex_may_be_freed_by_the_last_thread_that_locks_and_unlocks_it)
{
    test_kind(&(struct kind){"mutex", NULL, lock_after, lock_first, .helpers = 1});
    test_kind(&(struct kind){"contended mutex", NULL, lock_after, lock_first, .helpers = 1,
                             .companions = 2});
}

/* ---- Condition ---- */

static void wait_for_value(struct round *round)
{
    struct object *object = round->object;
    MUST_EQ(gs_mutex_lock(&object->mutex, GS_NEVER), 0);
    while (!object->value) {
        int err = gs_cond_wait(&object->cond, &object->mutex, until(round));
        MUST(!err || is_early(err));
    }
    gs_mutex_unlock(&object->mutex);
}

static void wake(struct round *round, unsigned helper)
{
    (void)helper;
    if (has(round, FIRST) && !kind->companions)
        gs_cond_signal(&round->object->cond);
    else
        gs_cond_broadcast(&round->object->cond);
}

static void set_value(struct round *round, unsigned helper)
{
    MUST_EQ(gs_mutex_lock(&round->object->mutex, GS_NEVER), 0);
    round->object->value = 1;
    wake(round, helper);
    gs_mutex_unlock(&round->object->mutex);
}

/* The helper may run before the wait. */
static void wait_without_mutex(struct round *round)
{
    uint64_t wait_ns = how(round) == SOON ? any(round, 8, 16) * GS_MICROSECOND : GS_MILLISECOND;
    int err;
    do
        err = gs_cond_wait(&round->object->cond, NULL, after(wait_ns));
    while (is_early(err) && !atomic_load(&round->returned));
    MUST(err || atomic_load(&round->begun) == 1);
}

TEST(condition_may_be_freed_when_its_wait_has_returned)
{
    test_kind(&(struct kind){"condition", NULL, wait_for_value, set_value, .helpers = 1});
    test_kind(&(struct kind){"shared condition", NULL, wait_for_value, set_value, .helpers = 1,
                             .companions = 2});
    test_kind(
        &(struct kind){"condition without mutex", NULL, wait_without_mutex, wake, .helpers = 1});
}

/* ---- Reader-writer lock ---- */

static int lock_either(struct gs_rwlock *rwlock, bool writes, uint64_t deadline_ns)
{
    return writes ? gs_rwlock_wrlock(rwlock, deadline_ns) : gs_rwlock_rdlock(rwlock, deadline_ns);
}

static void enter_after(struct round *round)
{
    int err;
    await(&round->step, kind->helpers);
    atomic_store(&round->called, 2);
    do
        err = lock_either(&round->object->rwlock, has(round, FIRST), until(round));
    while (is_early(err));
    MUST_EQ(err, 0);
    MUST_EQ(atomic_load(&round->step), 2 * kind->helpers);
    gs_rwlock_unlock(&round->object->rwlock);
}

/* Several helpers lock it for reading, then the others for writing. */
static void enter_first(struct round *round, unsigned helper)
{
    bool writes = kind->helpers == 1 && (!has(round, FIRST) || has(round, SECOND));
    MUST_EQ(lock_either(&round->object->rwlock, writes, GS_NEVER), 0);
    atomic_fetch_add(&round->step, 1);
    await(&round->step, kind->helpers);
    await(&round->called, 2);
    busy_wait(any(round, 8 + helper, 32));
    atomic_fetch_add(&round->step, 1);
    gs_rwlock_unlock(&round->object->rwlock);
}

TEST(reader_writer_lock_may_be_freed_by_the_last_thread_that_locks_and_unlocks_it)
{
    test_kind(&(struct kind){"reader-writer lock", NULL, enter_after, enter_first, .helpers = 1});
    test_kind(&(struct kind){"shared reader-writer lock", NULL, enter_after, enter_first,
                             .helpers = 1, .companions = 2});
}

/* ---- Once ---- */

static void run_once(void *round_)
{
    struct round *round = round_;
    atomic_store(&round->step, 1);
    if (has(round, FIRST))
        await(&round->called, 2);
    busy_wait(any(round, 8, 64));
    if (has(round, SECOND))
        gs_thread_yield();
    atomic_store(&round->step, 2);
}

static void call_after(struct round *round)
{
    await(&round->step, has(round, FIRST) ? 1 : 2);
    atomic_store(&round->called, 2);
    gs_once(&round->object->once, run_once, NULL);
    MUST_EQ(atomic_load(&round->step), 2);
}

static void call_first(struct round *round, unsigned helper)
{
    (void)helper;
    gs_once(&round->object->once, run_once, round);
}

TEST(once_may_be_freed_when_a_call_has_returned)
{
    test_kind(&(struct kind){"once", NULL, call_after, call_first, .helpers = 1});
    test_kind(
        &(struct kind){"shared once", NULL, call_after, call_first, .helpers = 1, .companions = 2});
}

/* ---- Barrier ---- */

static void set_barrier(struct round *round)
{
    round->object->barrier.threads = kind->helpers + 1;
}

static void meet(struct round *round)
{
    int result;
    do
        result = gs_barrier_wait(&round->object->barrier, until(round));
    while (is_early(result));
    MUST(result == 0 || result == 1);
    MUST_EQ(atomic_load(&round->begun), kind->helpers);
}

static void meet_owner(struct round *round, unsigned helper)
{
    (void)helper;
    int result = gs_barrier_wait(&round->object->barrier, GS_NEVER);
    MUST(result == 0 || result == 1);
}

TEST(barrier_may_be_freed_when_a_wait_has_returned)
{
    struct kind barrier = {"barrier", set_barrier, meet, meet_owner, .helpers = 1};
    test_kind(&barrier);
    barrier.helpers = 3;
    test_kind(&barrier);
}

/* ---- Threads on stacks of the caller ---- */

static void let_end(struct round *round, unsigned helper)
{
    (void)round, (void)helper;
}

static void *end(void *round_)
{
    struct round *round = round_;
    busy_wait(any(round, 8, 64));
    if (has(round, FIRST))
        gs_thread_yield();
    atomic_store(&round->step, 1);
    return round;
}

static void *park_and_end(void *round_)
{
    struct round *round = round_;
    int err;
    do
        err = gs_thread_park(until(round));
    while (is_early(err));
    MUST_EQ(err, 0);
    MUST_EQ(atomic_load(&round->begun), 1);
    atomic_store(&round->step, 1);
    return round;
}

static void spawn_on(struct round *round, void *stack)
{
    const struct gs_thread_attributes attributes = {
        .stack = stack,
        .stack_size = STACK_SIZE,
        .worker = has(round, SECOND) ? 0 : 1 + any(round, 9, workers),
        .migrates = has(round, SECOND)};
    gs_thread_fn *fn = kind->wake == let_end ? end : park_and_end;
    MUST_EQ(gs_thread_spawn(&attributes, fn, round, &round->target), 0);
}

static void join_in_time(struct round *round)
{
    void *result = NULL;
    int err;
    do
        err = gs_thread_join(round->target, until(round), &result);
    while (is_early(err));
    MUST_EQ(err, 0);
    MUST(result == round);
    MUST_EQ(atomic_load(&round->step), 1);
}

static void spawn_on_heap(struct round *round)
{
    round->stack = malloc(STACK_SIZE);
    MUST(round->stack);
    spawn_on(round, round->stack);
}

static void free_stack(struct round *round)
{
    retire(round, round->stack, STACK_SIZE);
}

static void join_on_stack(struct round *round)
{
    _Alignas(64) char stack[STACK_SIZE];
    spawn_on(round, stack);
    join_in_time(round);
}

TEST(stack_may_be_freed_when_the_join_has_returned)
{
    test_kind(
        &(struct kind){"join", spawn_on_heap, join_in_time, let_end, free_stack, .helpers = 1});
    test_kind(
        &(struct kind){"join on stack", NULL, join_on_stack, let_end, .helpers = 1, .depth = DEEP});
}

static void unpark(struct round *round, unsigned helper)
{
    (void)helper;
    gs_thread_unpark(round->target);
}

TEST(thread_that_was_unparked_may_end_and_be_freed)
{
    test_kind(
        &(struct kind){"park", spawn_on_heap, join_in_time, unpark, free_stack, .helpers = 1});
}
