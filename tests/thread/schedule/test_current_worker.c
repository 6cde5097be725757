#include "tests/thread/fixture.h"
#include "thread/schedule/thread.h"

static void *no_thread(void *unused)
{
    (void)unused;
    return gs_thread_self();
}

/* A kernel thread inherits state from the worker that creates it, but must not count as a
 * worker. */
static void *look(void *unused)
{
    pthread_t kernel_thread;
    void *self = &kernel_thread;
    MUST(gs_thread_self() && gs_thread_self() == worker_current()->current);
    MUST_EQ(pthread_create(&kernel_thread, NULL, no_thread, NULL), 0);
    pthread_join(kernel_thread, &self);
    MUST(!self);
    gs_thread_yield();
    MUST(gs_thread_self() == worker_current()->current);
    return unused;
}

THREAD(look_in_many)
{
    struct gs_thread *threads[10];
    for (int i = 0; i < 10; i++)
        threads[i] = spawn(look, NULL);
    for (int i = 0; i < 10; i++)
        join(threads[i]);
}

TEST(kernel_thread_that_a_worker_makes_is_no_worker)
{
    run_both(look_in_many);
}

static void *lock_and_unlock(void *mutex)
{
    MUST_EQ(gs_mutex_lock(mutex, 0), 0);
    gs_mutex_unlock(mutex);
    return NULL;
}

THREAD(lock_on_the_stack_of_the_worker)
{
    struct gs_mutex mutex = {0};
    gs_thread_call_on_worker_stack(lock_and_unlock, &mutex);
    lock_and_unlock(&mutex);
}

TEST(worker_is_found_where_the_gs_base_cannot_be_set)
{
    bool before = gs_runtime.uses_gsbase;
    gs_runtime.uses_gsbase = false;
    run_both(look_in_many);
    run_both(lock_on_the_stack_of_the_worker);
    gs_runtime.uses_gsbase = before;
}

static unsigned visited;

THREAD(migrate_often)
{
    unsigned seen;
    do {
        gs_thread_yield();
        MUST_EQ(gs_thread_sleep(after(20 * GS_MICROSECOND)), 0);
        seen = __atomic_or_fetch(&visited, 1u << worker_current()->index, __ATOMIC_SEQ_CST);
    } while (!(seen & (seen - 1)));
}

static void *stay(void *unused)
{
    unsigned index = worker_current()->index;
    for (int i = 0; i < 50; i++) {
        MUST_EQ(gs_thread_sleep(after(100 * GS_MICROSECOND)), 0);
        MUST_EQ(worker_current()->index, index);
    }
    return unused;
}

THREAD(spawn_migrating)
{
    const struct gs_thread_attributes attributes = {.migrates = true};
    struct gs_thread *migrating[20], *others[10];
    for (int i = 0; i < 20; i++)
        MUST_EQ(gs_thread_spawn(&attributes, migrate_often, NULL, &migrating[i]), 0);
    for (int i = 0; i < 10; i++)
        others[i] = spawn(stay, NULL);
    for (int i = 0; i < 20; i++)
        join(migrating[i]);
    for (int i = 0; i < 10; i++)
        join(others[i]);
}

TEST(only_migrating_threads_change_their_worker)
{
    visited = 0;
    run_with(3, spawn_migrating);
    CHECK(visited & (visited - 1));
}
