#include "tests/thread/fixture.h"
#include "thread/schedule/thread.h"

#define THREADS 60
#define ROUNDS 100

static struct gs_mutex mutex;
static struct gs_cond cond;
static unsigned seed = 1;

static unsigned draw(unsigned below)
{
    return (__atomic_add_fetch(&seed, 2654435769u, __ATOMIC_RELAXED) >> 8) % below;
}

/* Random operations; the invariants are checked in between. */
static void *do_anything(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        switch (draw(6)) {
        case 0:
            gs_thread_yield();
            break;
        case 1:
            MUST_EQ(gs_thread_sleep(after(draw(200) * GS_MICROSECOND)), 0);
            break;
        case 2:
            MUST_EQ(gs_mutex_lock(&mutex, GS_NEVER), 0);
            gs_thread_yield();
            gs_mutex_unlock(&mutex);
            break;
        case 3:
            MUST(gs_cond_wait(&cond, NULL, after(draw(300) * GS_MICROSECOND)) != -ECANCELED);
            break;
        case 4:
            gs_cond_signal(&cond);
            break;
        default:
            MUST(gs_thread_park(after(draw(100) * GS_MICROSECOND)) == -ETIMEDOUT);
            break;
        }
        if (i % 10 == 0)
            gs_threads_check();
    }
    return unused;
}

THREAD_TEST(invariants_hold_whatever_threads_do, run_both)
{
    struct gs_thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        const struct gs_thread_attributes attributes = {.migrates = i % 2,
                                                        .stack_is_shared = i % 5 == 0,
                                                        .priority = (enum gs_priority)(i % 3)};
        MUST_EQ(gs_thread_spawn(&attributes, do_anything, NULL, &threads[i]), 0);
    }
    gs_threads_check();
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    gs_threads_check();
}

static unsigned seen_on;

static void *record_worker(void *unused)
{
    __atomic_or_fetch(&seen_on, 1u << worker_current()->index, __ATOMIC_SEQ_CST);
    return unused;
}

/* The first thread never leaves its worker, so the other threads run on the second one only if it
 * steals them. */
static void *spawn_until_stolen(void *unused)
{
    while (!(__atomic_load_n(&seen_on, __ATOMIC_SEQ_CST) & 2)) {
        join(spawn(record_worker, NULL));
        MUST_EQ(gs_thread_spawn(NULL, record_worker, NULL, NULL), 0);
        gs_thread_yield();
    }
    return unused;
}

TEST(new_threads_go_to_workers_with_nothing_to_do)
{
    run_with(2, spawn_until_stolen);
    CHECK(seen_on & 2);
}
