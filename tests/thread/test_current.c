#include "tests/thread/fixture.h"
#include "thread/state.h"

#include <pthread.h>

static void *no_thread(void *unused)
{
    (void)unused;
    return gs_thread_self();
}

/* What a kernel thread that was made by a worker inherits must not make it one. */
static void *look(void *unused)
{
    pthread_t kernel_thread;
    void *self = &kernel_thread;
    (void)unused;
    MUST(gs_thread_self() && gs_thread_self() == worker_current()->current);
    MUST_EQ(pthread_create(&kernel_thread, NULL, no_thread, NULL), 0);
    pthread_join(kernel_thread, &self);
    MUST(!self);
    gs_thread_yield();
    MUST(gs_thread_self() == worker_current()->current);
    return NULL;
}

static void *look_in_many(void *unused)
{
    struct gs_thread *threads[10];
    (void)unused;
    for (int i = 0; i < 10; i++)
        threads[i] = spawn(look, NULL);
    for (int i = 0; i < 10; i++)
        join(threads[i]);
    return NULL;
}

TEST(kernel_thread_that_a_worker_makes_is_no_worker)
{
    run_both(look_in_many);
}

TEST(worker_is_found_where_the_gs_base_cannot_be_set)
{
    bool before = gs_runtime.uses_gs;
    gs_runtime.uses_gs = false;
    run_both(look_in_many);
    gs_runtime.uses_gs = before;
}

static unsigned visited;

static void *wander(void *unused)
{
    (void)unused;
    unsigned seen;
    do {
        gs_thread_yield();
        MUST_EQ(gs_thread_sleep(after(20 * GS_MICROSECOND)), 0);
        seen = __atomic_or_fetch(&visited, 1u << worker_current()->index, __ATOMIC_SEQ_CST);
    } while (!(seen & (seen - 1)));
    return NULL;
}

static void *stay(void *unused)
{
    (void)unused;
    unsigned index = worker_current()->index;
    for (int i = 0; i < 50; i++) {
        MUST_EQ(gs_thread_sleep(after(100 * GS_MICROSECOND)), 0);
        MUST_EQ(worker_current()->index, index);
    }
    return NULL;
}

static void *spawn_wanderers(void *unused)
{
    const struct gs_thread_attributes attributes = {.migrates = true};
    struct gs_thread *wanderers[20], *others[10];
    (void)unused;
    for (int i = 0; i < 20; i++)
        MUST_EQ(gs_thread_spawn(&attributes, wander, NULL, &wanderers[i]), 0);
    for (int i = 0; i < 10; i++)
        others[i] = spawn(stay, NULL);
    for (int i = 0; i < 20; i++)
        join(wanderers[i]);
    for (int i = 0; i < 10; i++)
        join(others[i]);
    return NULL;
}

TEST(only_migrating_threads_change_their_worker)
{
    visited = 0;
    run_with(3, spawn_wanderers);
    CHECK(visited & (visited - 1));
}
