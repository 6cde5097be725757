#include "tests/loop/fixture.h"

static struct gs_loop *loop;
static struct gs_async a, b;

static void set_up(void)
{
    loop = new_loop();
    gs_async_init(&a, loop, log_async);
    gs_async_init(&b, loop, log_async);
    a.watcher.data = "a";
    b.watcher.data = "b";
    gs_async_start(&a);
    gs_async_start(&b);
}

#define ASYNC_TEST(name_) FIXTURE_TEST(name_, set_up(), gs_loop_free(loop))

ASYNC_TEST(sends_before_the_call_coalesce)
{
    gs_async_send(&a);
    gs_async_send(&a);
    gs_async_send(&a);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    CHECK_EQ(step(loop), 0);
    gs_async_send(&a);
    CHECK_EQ(step(loop), 1);
}

ASYNC_TEST(first_sent_is_first_called)
{
    gs_async_send(&b);
    gs_async_send(&a);
    CHECK_EQ(step(loop), 2);
    CHECK_STR(calls, "ba");
}

static void send_itself_once(struct gs_async *async)
{
    log_async(async);
    if (!calls[1])
        gs_async_send(async);
}

ASYNC_TEST(send_in_its_own_callback_leads_to_another_call)
{
    gs_async_stop(&a);
    gs_async_init(&a, loop, send_itself_once);
    a.watcher.data = "a";
    gs_async_start(&a);
    gs_async_send(&a);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 1);
    CHECK_EQ(step(loop), 0);
}

ASYNC_TEST(stopped_async_is_not_called_and_can_be_started_and_sent_again)
{
    gs_async_send(&a);
    gs_async_send(&b);
    gs_async_stop(&a);
    gs_async_stop(&a);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "b");
    gs_async_start(&a);
    gs_async_start(&a);
    CHECK_EQ(step(loop), 0);
    gs_async_send(&a);
    CHECK_EQ(step(loop), 1);
}

static void stop_b(struct gs_async *async)
{
    log_async(async);
    gs_async_stop(&b);
}

ASYNC_TEST(async_stopped_while_pending_is_not_called_until_sent_again)
{
    gs_async_stop(&a);
    gs_async_init(&a, loop, stop_b);
    a.watcher.data = "a";
    gs_async_start(&a);
    gs_async_send(&a);
    gs_async_send(&b);
    CHECK_EQ(step(loop), 1);
    gs_async_start(&b);
    CHECK_EQ(step(loop), 0);
    gs_async_send(&b);
    CHECK_EQ(step(loop), 1);
    CHECK_STR(calls, "ab");
}

TEST(async_that_was_sent_may_be_freed_when_it_was_stopped)
{
    struct gs_async *sent = malloc(sizeof *sent);
    set_up();
    CHECK(sent);
    gs_async_init(sent, loop, log_async);
    gs_async_start(sent);
    gs_async_send(sent);
    gs_async_send(&a);
    gs_async_stop(sent);
    memset(sent, 0x5a, sizeof *sent);
    free(sent);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    CHECK_STR(calls, "a");
    gs_loop_free(loop);
}

ASYNC_TEST(send_to_an_inactive_async_is_dropped)
{
    gs_async_stop(&a);
    gs_async_send(&a);
    CHECK_EQ(step(loop), 0);
    gs_async_start(&a);
    CHECK_EQ(step(loop), 0);
    gs_async_send(&a);
    CHECK_EQ(step(loop), 1);
}

static void send_a(int number)
{
    (void)number;
    gs_async_send(&a);
}

ASYNC_TEST(async_may_be_sent_from_a_signal_handler)
{
    signal(SIGUSR1, send_a);
    raise(SIGUSR1);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 1);
    signal(SIGUSR1, SIG_DFL);
}

/* Each of THREADS kernel threads sends SENDS numbers through its own and shared asyncs, and the
 * loop sleeps in between. A callback must see everything that was written before its send: the
 * thread sanitizer checks the non-atomic counters below. */
#define THREADS 4
#define SENDS 20000

static struct worker {
    pthread_t thread;
    struct gs_async own;
    _Atomic(unsigned) written;
    unsigned seen;
} workers[THREADS];
static struct gs_async shared;
static _Atomic(unsigned) shared_written;
static unsigned shared_seen;

static void on_own(struct gs_async *async)
{
    struct worker *worker = async->watcher.data;
    worker->seen = atomic_load_explicit(&worker->written, memory_order_relaxed);
}

static void on_shared(struct gs_async *async)
{
    (void)async;
    shared_seen = atomic_load_explicit(&shared_written, memory_order_relaxed);
}

static void *send_many(void *data)
{
    struct worker *worker = data;
    for (unsigned i = 0; i < SENDS; i++) {
        atomic_fetch_add_explicit(&worker->written, 1, memory_order_relaxed);
        gs_async_send(&worker->own);
        atomic_fetch_add_explicit(&shared_written, 1, memory_order_relaxed);
        gs_async_send(&shared);
    }
    return NULL;
}

static bool is_all_seen(void)
{
    bool is_all = shared_seen == THREADS * SENDS;
    for (int i = 0; i < THREADS; i++)
        is_all &= workers[i].seen == SENDS;
    return is_all;
}

TEST(no_send_of_many_threads_is_lost)
{
    loop = new_loop();
    gs_async_init(&shared, loop, on_shared);
    gs_async_start(&shared);
    for (int i = 0; i < THREADS; i++) {
        gs_async_init(&workers[i].own, loop, on_own);
        workers[i].own.watcher.data = &workers[i];
        gs_async_start(&workers[i].own);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, send_many, &workers[i]), 0);
    /* If a wake-up is lost, the test times out. */
    while (!is_all_seen())
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    step(loop);
    gs_loop_free(loop);
}

static unsigned handed_over, received;

static void on_handed_over(struct gs_async *async)
{
    (void)async;
    received = handed_over;
}

static void *hand_over(void *data)
{
    handed_over = 42;
    gs_async_send(data);
    return NULL;
}

TEST(what_was_written_before_the_send_is_seen_by_the_callback)
{
    pthread_t thread;
    loop = new_loop();
    gs_async_init(&a, loop, on_handed_over);
    gs_async_start(&a);
    CHECK_EQ(pthread_create(&thread, NULL, hand_over, &a), 0);
    CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    while (!received)
        CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    CHECK_EQ(received, 42);
    pthread_join(thread, NULL);
    gs_loop_free(loop);
}

static void *wake_many(void *data)
{
    for (int i = 0; i < 1000; i++)
        gs_loop_wake(data);
    return NULL;
}

TEST(wake_of_another_thread_ends_the_wait)
{
    pthread_t thread;
    loop = new_loop();
    CHECK_EQ(pthread_create(&thread, NULL, wake_many, loop), 0);
    CHECK_EQ(gs_loop_run_once(loop, GS_NEVER), 0);
    pthread_join(thread, NULL);
    gs_loop_free(loop);
}
