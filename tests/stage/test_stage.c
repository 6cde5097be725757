#include <gossamer/loop.h>
#include <gossamer/stage.h>

#include "tests/test.h"

#include <semaphore.h>

#define EVENTS 20000

struct job {
    struct gs_event event;
    unsigned times;
};

static struct job jobs[EVENTS];
static atomic_uint handled, calls, largest;
static sem_t entered, gate;
static struct gs_stage *second;

static void set_up(void)
{
    memset(jobs, 0, sizeof jobs);
    handled = calls = largest = 0;
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
}

static void count(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    (void)data;
    calls++;
    if (batch->count > largest)
        largest = batch->count;
    while ((event = gs_batch_next(batch))) {
        gs_container_of(event, struct job, event)->times++;
        handled++;
    }
}

/* Each call waits for a post of the semaphore `gate`. */
static void count_one_by_one(struct gs_batch *batch, void *data)
{
    sem_post(&entered);
    sem_wait(&gate);
    count(batch, data);
}

static void forward(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    (void)data;
    while ((event = gs_batch_next(batch)))
        (void)!gs_outbox_add(batch->outbox, second, event);
}

static struct gs_stage *new_stage(struct gs_stage_options options)
{
    struct gs_stage *stage;
    options.name = "test";
    if (!options.handle)
        options.handle = count;
    if (!options.loop && !options.max_threads)
        options.max_threads = 1;
    CHECK_EQ(gs_stage_new(&options, &stage), 0);
    return stage;
}

static void enqueue_all(struct gs_stage *stage, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        CHECK_EQ(gs_stage_enqueue(stage, &jobs[i].event), 0);
}

static void check_each_was_handled_once(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(jobs[i].times, 1);
    CHECK_EQ(handled, count);
}

TEST(every_event_is_handled_once_by_one_thread)
{
    set_up();
    struct gs_stage *stage = new_stage((struct gs_stage_options){0});
    enqueue_all(stage, 0, EVENTS);
    gs_stage_free(stage);
    check_each_was_handled_once(EVENTS);
}

static void *enqueue_quarter(void *data)
{
    static atomic_uint next;
    enqueue_all(data, next++ % 4 * (EVENTS / 4), EVENTS / 4);
    return NULL;
}

TEST(every_event_of_several_producers_is_handled_once_by_several_threads)
{
    pthread_t producers[4];
    set_up();
    struct gs_stage *stage = new_stage((struct gs_stage_options){.max_threads = 3, .max_batch = 7});
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&producers[i], NULL, enqueue_quarter, stage), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(producers[i], NULL);
    gs_stage_free(stage);
    check_each_was_handled_once(EVENTS);
    CHECK(largest <= 7);
}

TEST(events_of_an_outbox_reach_the_next_stage)
{
    set_up();
    second = new_stage((struct gs_stage_options){0});
    struct gs_stage *first = new_stage((struct gs_stage_options){.handle = forward});
    enqueue_all(first, 0, EVENTS);
    gs_stage_free(first);
    gs_stage_free(second);
    check_each_was_handled_once(EVENTS);
}

TEST(stage_that_another_steals_from_handles_every_event_once)
{
    set_up();
    second = new_stage((struct gs_stage_options){.max_threads = 2});
    struct gs_stage *first = new_stage(
        (struct gs_stage_options){.handle = forward, .steals_from = second, .max_threads = 2});
    enqueue_all(first, 0, EVENTS);
    gs_stage_free(first);
    gs_stage_free(second);
    check_each_was_handled_once(EVENTS);
}

TEST(full_queue_refuses_events)
{
    set_up();
    struct gs_stage *stage = new_stage(
        (struct gs_stage_options){.handle = count_one_by_one, .max_queue = 3, .max_batch = 1});
    enqueue_all(stage, 0, 1);
    sem_wait(&entered); /* the first event is in the handler */
    enqueue_all(stage, 1, 3);
    CHECK_EQ(gs_stage_enqueue(stage, &jobs[4].event), -EAGAIN);
    struct gs_stage_stats stats;
    gs_stage_stats(stage, &stats);
    CHECK_EQ(stats.queued, 3);
    CHECK_EQ(stats.refused_full, 1);
    sem_post(&gate);
    sem_wait(&entered);
    enqueue_all(stage, 4, 1);
    for (int i = 0; i < 4; i++)
        sem_post(&gate);
    gs_stage_free(stage);
    check_each_was_handled_once(5);
}

TEST(events_above_the_admitted_rate_are_refused)
{
    struct gs_stage_stats stats;
    unsigned refused = 0;
    set_up();
    struct gs_stage *stage = new_stage(
        (struct gs_stage_options){.controllers = GS_STAGE_ADMISSION, .target_ns = GS_SECOND});
    for (unsigned i = 0; i < EVENTS; i++) {
        int err = gs_stage_enqueue(stage, &jobs[i].event);
        CHECK(!err || err == -EBUSY);
        refused += err != 0;
    }
    gs_stage_stats(stage, &stats);
    CHECK_EQ(stats.refused_admission, refused);
    CHECK(refused && refused <= EVENTS - 10);
    CHECK(stats.rate >= 10);
    gs_stage_free(stage);
    CHECK_EQ(handled, EVENTS - refused);
}

TEST(event_that_would_wait_too_long_is_refused)
{
    set_up();
    struct gs_stage *stage = new_stage(
        (struct gs_stage_options){.handle = count_one_by_one, .max_batch = 1, .max_wait_ns = 1});
    enqueue_all(stage, 0, 2); /* the service time is not known yet */
    sem_post(&gate);
    sem_wait(&entered);
    sem_wait(&entered);       /* the first event has been handled */
    enqueue_all(stage, 2, 1); /* the queue is empty */
    CHECK_EQ(gs_stage_enqueue(stage, &jobs[3].event), -EAGAIN);
    sem_post(&gate);
    sem_post(&gate);
    gs_stage_free(stage);
    check_each_was_handled_once(3);
}

static void pause_briefly(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
}

/* Enqueue events until the stage has this number of threads, each in the handler. Returns the
 * number of events. */
static unsigned grow_to(struct gs_stage *stage, unsigned threads)
{
    struct gs_stage_stats stats;
    unsigned enqueued = 0;
    do {
        CHECK(enqueued < EVENTS);
        enqueue_all(stage, enqueued++, 1);
        pause_briefly();
        gs_stage_stats(stage, &stats);
    } while (stats.threads < threads);
    for (unsigned i = 0; i < threads; i++)
        sem_wait(&entered);
    return enqueued;
}

static const struct gs_stage_options growing = {
    .handle = count_one_by_one, .max_batch = 1, .max_threads = 3, .controllers = GS_STAGE_THREADS};

TEST(threads_are_added_while_events_are_queued)
{
    struct gs_stage_stats stats;
    set_up();
    struct gs_stage *stage = new_stage(growing);
    gs_stage_stats(stage, &stats);
    CHECK_EQ(stats.threads, 1);
    unsigned enqueued = grow_to(stage, 3);
    enqueue_all(stage, enqueued, 50);
    gs_stage_stats(stage, &stats);
    CHECK_EQ(stats.threads, 3);
    for (unsigned i = 0; i < enqueued + 50; i++)
        sem_post(&gate);
    gs_stage_free(stage);
    check_each_was_handled_once(enqueued + 50);
}

TEST(idle_threads_end_except_the_last)
{
    struct gs_stage_stats stats;
    set_up();
    struct gs_stage *stage = new_stage(growing);
    unsigned enqueued = grow_to(stage, 2);
    for (unsigned i = 0; i <= enqueued; i++)
        sem_post(&gate);
    do {
        pause_briefly();
        gs_stage_stats(stage, &stats);
    } while (stats.threads > 1);
    enqueue_all(stage, enqueued, 1);
    gs_stage_free(stage);
    check_each_was_handled_once(enqueued + 1);
}

TEST(statistics_count_events_and_batches)
{
    struct gs_stage_stats stats;
    set_up();
    struct gs_stage *stage = new_stage(
        (struct gs_stage_options){.handle = count_one_by_one, .max_batch = 4, .max_threads = 1});
    enqueue_all(stage, 0, 1);
    sem_wait(&entered);
    enqueue_all(stage, 1, 8);
    for (int i = 0; i < 3; i++)
        sem_post(&gate);
    do
        gs_stage_stats(stage, &stats);
    while (stats.events < 9);
    CHECK_STR(stats.name, "test");
    CHECK_EQ(stats.batches, 3);
    CHECK_EQ(stats.queued, 0);
    CHECK_EQ(stats.threads, 1);
    CHECK_EQ(stats.batch, 4);
    CHECK(stats.wait_ns > 0 && stats.handle_ns > 0);
    CHECK_EQ(largest, 4);
    gs_stage_free(stage);
}

/* ---- Stages on loops ---- */

static pthread_t loop_thread;

static void count_in_loop(struct gs_batch *batch, void *data)
{
    CHECK(pthread_equal(pthread_self(), loop_thread));
    count(batch, data);
    if (handled == EVENTS)
        gs_loop_stop(data);
}

static void *enqueue_everything(void *data)
{
    enqueue_all(data, 0, EVENTS);
    return NULL;
}

TEST(stage_on_a_loop_is_served_by_the_loop)
{
    struct gs_loop *loop;
    pthread_t producer;
    set_up();
    CHECK_EQ(gs_loop_new(&loop), 0);
    loop_thread = pthread_self();
    struct gs_stage *stage =
        new_stage((struct gs_stage_options){.handle = count_in_loop, .data = loop, .loop = loop});
    CHECK_EQ(pthread_create(&producer, NULL, enqueue_everything, stage), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    pthread_join(producer, NULL);
    check_each_was_handled_once(EVENTS);
    gs_stage_free(stage);
    gs_loop_free(loop);
}

static void on_tick(struct gs_timer *timer)
{
    struct gs_stage *stage = timer->watcher.data;
    for (unsigned i = 0; i < 100; i++)
        CHECK_EQ(gs_outbox_add(gs_stage_outbox(stage), second, &jobs[i].event), 0);
}

TEST(outbox_of_a_loop_is_flushed_before_the_loop_waits)
{
    struct gs_loop *loop;
    struct gs_timer timer;
    set_up();
    CHECK_EQ(gs_loop_new(&loop), 0);
    second = new_stage((struct gs_stage_options){.handle = count_one_by_one});
    struct gs_stage *stage = new_stage((struct gs_stage_options){.loop = loop});
    gs_timer_init(&timer, loop, on_tick);
    timer.watcher.data = stage;
    CHECK_EQ(gs_timer_start(&timer, 0), 0);
    CHECK(gs_loop_run_once(loop, GS_NEVER) >= 0);
    struct gs_stage_stats stats;
    gs_stage_stats(second, &stats);
    CHECK_EQ(stats.queued, 0);
    CHECK(gs_loop_run_once(loop, 0) >= 0);
    sem_wait(&entered);
    sem_post(&gate);
    gs_stage_free(stage);
    gs_stage_free(second);
    gs_loop_free(loop);
    check_each_was_handled_once(100);
    CHECK_EQ(calls, 1);
}

/* ---- Options and signals ---- */

TEST(contradictory_options_are_refused)
{
    struct gs_loop *loop;
    CHECK_EQ(gs_loop_new(&loop), 0);
    const struct gs_stage_options wrong[] = {
        {.max_threads = 1},
        {.handle = count},
        {.handle = count, .max_threads = 1, .loop = loop},
        {.handle = count, .loop = loop, .controllers = GS_STAGE_THREADS},
        {.handle = count, .max_threads = 1, .controllers = GS_STAGE_ADMISSION},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct gs_stage *stage;
        CHECK_EQ(gs_stage_new(&wrong[i], &stage), -EINVAL);
    }
    gs_stage_free(NULL);
    gs_loop_free(loop);
}

static void record_signals(struct gs_batch *batch, void *data)
{
    sigset_t *set = data;
    pthread_sigmask(SIG_BLOCK, NULL, set);
    count(batch, NULL);
}

TEST(threads_of_a_stage_block_all_signals)
{
    sigset_t set;
    sigemptyset(&set);
    set_up();
    struct gs_stage *stage =
        new_stage((struct gs_stage_options){.handle = record_signals, .data = &set});
    enqueue_all(stage, 0, 1);
    gs_stage_free(stage);
    CHECK(sigismember(&set, SIGTERM) && sigismember(&set, SIGUSR1));
}
