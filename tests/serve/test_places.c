#include "serve/places.h"

#include "tests/test.h"

#include <sched.h>

static struct serve_places places;
static struct gs_loop *loop;
static atomic_uint calls;

static void on_place(struct gs_async *async)
{
    (void)async;
    calls++;
}

static void start(struct serve_waiter *waiter, uint64_t most)
{
    serve_places_init(&places, most);
    calls = 0;
    *waiter = (struct serve_waiter){0};
    CHECK_EQ(gs_loop_new(&loop), 0);
    gs_async_init(&waiter->async, loop, on_place);
    gs_async_start(&waiter->async);
}

static void stop(struct serve_waiter *waiter)
{
    serve_places_forget(&places, waiter);
    gs_async_stop(&waiter->async);
    gs_loop_free(loop);
}

static void check_calls(unsigned expected)
{
    CHECK(gs_loop_step(loop, 0) >= 0);
    CHECK_EQ(calls, expected);
}

TEST(as_many_places_are_taken_as_there_are)
{
    struct serve_waiter waiter;
    start(&waiter, 2);
    CHECK(serve_places_take(&places));
    CHECK(serve_places_take(&places));
    CHECK(!serve_places_take(&places));
    serve_places_leave(&places);
    CHECK(serve_places_take(&places));
    CHECK(!serve_places_take(&places));
    stop(&waiter);
}

TEST(waiter_is_told_once_of_a_place_that_becomes_free)
{
    struct serve_waiter waiter;
    start(&waiter, 1);
    CHECK(serve_places_take(&places));
    serve_places_wait(&places, &waiter);
    serve_places_wait(&places, &waiter);
    check_calls(0);
    serve_places_leave(&places);
    check_calls(1);
    CHECK(serve_places_take(&places));
    serve_places_leave(&places);
    check_calls(1);
    stop(&waiter);
}

TEST(waiter_is_told_of_a_place_that_is_free_already)
{
    struct serve_waiter waiter;
    start(&waiter, 1);
    serve_places_wait(&places, &waiter);
    check_calls(1);
    stop(&waiter);
}

TEST(forgotten_waiter_is_told_nothing)
{
    struct serve_waiter waiter;
    start(&waiter, 1);
    CHECK(serve_places_take(&places));
    serve_places_wait(&places, &waiter);
    serve_places_forget(&places, &waiter);
    serve_places_leave(&places);
    check_calls(0);
    stop(&waiter);
}

/* ---- Several kernel threads ---- */

#define THREADS 4
#define TURNS 2000

static atomic_uint inside, inside_most;

struct visitor {
    struct gs_loop *loop;
    struct serve_waiter waiter;
    pthread_t thread;
    bool failed;
};

static void enter_and_leave(void)
{
    unsigned now = atomic_fetch_add(&inside, 1) + 1;
    unsigned most = atomic_load(&inside_most);
    while (now > most && !atomic_compare_exchange_weak(&inside_most, &most, now))
        continue;
    sched_yield();
    atomic_fetch_sub(&inside, 1);
    serve_places_leave(&places);
}

/* Whoever finds no place sleeps until it is told: a wake-up that is lost would leave it there. */
static void *visit(void *argument)
{
    struct visitor *visitor = argument;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        while (!serve_places_take(&places)) {
            serve_places_wait(&places, &visitor->waiter);
            if (gs_loop_step(visitor->loop, GS_NEVER) < 0)
                visitor->failed = true;
        }
        enter_and_leave();
    }
    serve_places_forget(&places, &visitor->waiter);
    gs_async_stop(&visitor->waiter.async);
    return NULL;
}

TEST(places_are_shared_by_kernel_threads)
{
    static struct visitor visitors[THREADS];
    serve_places_init(&places, 2);
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(gs_loop_new(&visitors[i].loop), 0);
        gs_async_init(&visitors[i].waiter.async, visitors[i].loop, on_place);
        gs_async_start(&visitors[i].waiter.async);
        CHECK_EQ(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(visitors[i].thread, NULL), 0);
        CHECK(!visitors[i].failed);
        gs_loop_free(visitors[i].loop);
    }
    CHECK(inside_most >= 1 && inside_most <= 2);
    CHECK_EQ(places.taken, 0);
}
