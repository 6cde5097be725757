#include "serve/accept/slots.h"

#include "tests/test.h"

static struct serve_slots slots;
static struct gs_loop *loop;
static atomic_uint calls;

static void on_slot(struct gs_async *async)
{
    (void)async;
    calls++;
}

static void start(struct serve_slot_waiter *waiter, uint64_t max)
{
    serve_slots_init(&slots, max);
    calls = 0;
    *waiter = (struct serve_slot_waiter){0};
    CHECK_EQ(gs_loop_new(&loop), 0);
    gs_async_init(&waiter->async, loop, on_slot);
    gs_async_start(&waiter->async);
}

static void stop(struct serve_slot_waiter *waiter)
{
    serve_slots_cancel_wait(&slots, waiter);
    gs_async_stop(&waiter->async);
    gs_loop_free(loop);
}

static void check_calls(unsigned expected)
{
    CHECK(gs_loop_run_once(loop, 0) >= 0);
    CHECK_EQ(calls, expected);
}

TEST(as_many_slots_are_acquired_as_there_are)
{
    struct serve_slot_waiter waiter;
    start(&waiter, 2);
    CHECK(serve_slots_acquire(&slots));
    CHECK(serve_slots_acquire(&slots));
    CHECK(!serve_slots_acquire(&slots));
    serve_slots_release(&slots);
    CHECK(serve_slots_acquire(&slots));
    CHECK(!serve_slots_acquire(&slots));
    stop(&waiter);
}

TEST(waiter_is_notified_once_of_a_slot_that_becomes_free)
{
    struct serve_slot_waiter waiter;
    start(&waiter, 1);
    CHECK(serve_slots_acquire(&slots));
    serve_slots_wait(&slots, &waiter);
    serve_slots_wait(&slots, &waiter);
    check_calls(0);
    serve_slots_release(&slots);
    check_calls(1);
    CHECK(serve_slots_acquire(&slots));
    serve_slots_release(&slots);
    check_calls(1);
    stop(&waiter);
}

TEST(waiter_is_notified_of_a_slot_that_is_free_already)
{
    struct serve_slot_waiter waiter;
    start(&waiter, 1);
    serve_slots_wait(&slots, &waiter);
    check_calls(1);
    stop(&waiter);
}

TEST(waiter_whose_wait_is_cancelled_is_not_notified)
{
    struct serve_slot_waiter waiter;
    start(&waiter, 1);
    CHECK(serve_slots_acquire(&slots));
    serve_slots_wait(&slots, &waiter);
    serve_slots_cancel_wait(&slots, &waiter);
    serve_slots_release(&slots);
    check_calls(0);
    stop(&waiter);
}

/* ---- Several kernel threads ---- */

#define THREADS 4
#define TURNS 2000

static atomic_uint used, max_inside;

struct visitor {
    struct gs_loop *loop;
    struct serve_slot_waiter waiter;
    pthread_t thread;
    bool failed;
};

static void enter_and_leave(void)
{
    unsigned now = atomic_fetch_add(&used, 1) + 1;
    unsigned most = atomic_load(&max_inside);
    while (now > most && !atomic_compare_exchange_weak(&max_inside, &most, now))
        continue;
    sched_yield();
    atomic_fetch_sub(&used, 1);
    serve_slots_release(&slots);
}

/* A thread that finds no slot sleeps until it is notified, so a lost wake-up would leave it
 * asleep. */
static void *visit(void *argument)
{
    struct visitor *visitor = argument;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        while (!serve_slots_acquire(&slots)) {
            serve_slots_wait(&slots, &visitor->waiter);
            if (gs_loop_run_once(visitor->loop, GS_NEVER) < 0)
                visitor->failed = true;
        }
        enter_and_leave();
    }
    serve_slots_cancel_wait(&slots, &visitor->waiter);
    gs_async_stop(&visitor->waiter.async);
    return NULL;
}

TEST(slots_are_shared_by_kernel_threads)
{
    static struct visitor visitors[THREADS];
    serve_slots_init(&slots, 2);
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(gs_loop_new(&visitors[i].loop), 0);
        gs_async_init(&visitors[i].waiter.async, visitors[i].loop, on_slot);
        gs_async_start(&visitors[i].waiter.async);
        CHECK_EQ(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(visitors[i].thread, NULL), 0);
        CHECK(!visitors[i].failed);
        gs_loop_free(visitors[i].loop);
    }
    CHECK(max_inside >= 1 && max_inside <= 2);
    CHECK_EQ(slots.used, 0);
}
