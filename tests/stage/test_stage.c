#include <gossamer/loop.h>
#include <gossamer/stage.h>

#include "tests/test.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#define EVENTS 20000

struct job {
    struct gs_event event;
    unsigned seen;
};

static struct job jobs[EVENTS];
static atomic_uint handled, calls, largest;
static sem_t entered, gate;
static struct gs_stage *second;

static void begin(void)
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
    while ((event = gs_batch_take(batch))) {
        gs_container_of(event, struct job, event)->seen++;
        handled++;
    }
}

/* Each call waits until it is let go. */
static void count_one_by_one(struct gs_batch *batch, void *data)
{
    sem_post(&entered);
    sem_wait(&gate);
    count(batch, data);
}

static void pass_on(struct gs_batch *batch, void *data)
{
    struct gs_event *event;
    (void)data;
    while ((event = gs_batch_take(batch)))
        (void)!gs_outbox_put(batch->outbox, second, event);
}

static struct gs_stage *new_stage(struct gs_stage_options options)
{
    struct gs_stage *stage;
    options.name = "test";
    if (!options.handle)
        options.handle = count;
    if (!options.loop && !options.threads_most)
        options.threads_most = 1;
    CHECK_EQ(gs_stage_new(&options, &stage), 0);
    return stage;
}

static void put_all(struct gs_stage *stage, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        CHECK_EQ(gs_stage_put(stage, &jobs[i].event), 0);
}

static void check_each_was_seen_once(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(jobs[i].seen, 1);
    CHECK_EQ(handled, count);
}

TEST(every_event_is_handled_once_by_one_thread)
{
    begin();
    struct gs_stage *stage = new_stage((struct gs_stage_options){0});
    put_all(stage, 0, EVENTS);
    gs_stage_free(stage);
    check_each_was_seen_once(EVENTS);
}

static void *put_a_quarter(void *data)
{
    static atomic_uint next;
    put_all(data, next++ % 4 * (EVENTS / 4), EVENTS / 4);
    return NULL;
}

TEST(every_event_is_handled_once_by_several_threads_from_several)
{
    pthread_t putters[4];
    begin();
    struct gs_stage *stage =
        new_stage((struct gs_stage_options){.threads_most = 3, .batch_most = 7});
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&putters[i], NULL, put_a_quarter, stage), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(putters[i], NULL);
    gs_stage_free(stage);
    check_each_was_seen_once(EVENTS);
    CHECK(largest <= 7);
}

TEST(what_a_handler_puts_goes_on_in_one_batch)
{
    begin();
    second = new_stage((struct gs_stage_options){0});
    struct gs_stage *first = new_stage((struct gs_stage_options){.handle = pass_on});
    put_all(first, 0, EVENTS);
    gs_stage_free(first);
    gs_stage_free(second);
    check_each_was_seen_once(EVENTS);
}

TEST(a_helped_stage_gets_all_events_too)
{
    begin();
    second = new_stage((struct gs_stage_options){.threads_most = 2});
    struct gs_stage *first =
        new_stage((struct gs_stage_options){.handle = pass_on, .helps = second, .threads_most = 2});
    put_all(first, 0, EVENTS);
    gs_stage_free(first);
    gs_stage_free(second);
    check_each_was_seen_once(EVENTS);
}

TEST(a_full_queue_takes_no_more)
{
    begin();
    struct gs_stage *stage = new_stage(
        (struct gs_stage_options){.handle = count_one_by_one, .queue_most = 3, .batch_most = 1});
    put_all(stage, 0, 1);
    sem_wait(&entered); /* one is in the handler */
    put_all(stage, 1, 3);
    CHECK_EQ(gs_stage_put(stage, &jobs[4].event), -EAGAIN);
    struct gs_stage_figures figures;
    gs_stage_figures(stage, &figures);
    CHECK_EQ(figures.queued, 3);
    CHECK_EQ(figures.full, 1);
    sem_post(&gate);
    sem_wait(&entered);
    put_all(stage, 4, 1);
    for (int i = 0; i < 4; i++)
        sem_post(&gate);
    gs_stage_free(stage);
    check_each_was_seen_once(5);
}

TEST(more_than_the_controller_admits_is_refused)
{
    struct gs_stage_figures figures;
    unsigned refused = 0;
    begin();
    struct gs_stage *stage = new_stage(
        (struct gs_stage_options){.controllers = GS_STAGE_ADMISSION, .target_ns = GS_SECOND});
    for (unsigned i = 0; i < EVENTS; i++) {
        int err = gs_stage_put(stage, &jobs[i].event);
        CHECK(!err || err == -EBUSY);
        refused += err != 0;
    }
    gs_stage_figures(stage, &figures);
    CHECK_EQ(figures.refused, refused);
    CHECK(refused && refused <= EVENTS - 10);
    CHECK(figures.rate >= 10);
    gs_stage_free(stage);
    CHECK_EQ(handled, EVENTS - refused);
}

TEST(what_would_take_too_long_is_refused)
{
    begin();
    struct gs_stage *stage = new_stage(
        (struct gs_stage_options){.handle = count_one_by_one, .batch_most = 1, .wait_most_ns = 1});
    put_all(stage, 0, 2); /* how long they take is not known yet */
    sem_post(&gate);
    sem_wait(&entered);
    sem_wait(&entered);   /* the first has been handled */
    put_all(stage, 2, 1); /* nobody waits */
    CHECK_EQ(gs_stage_put(stage, &jobs[3].event), -EAGAIN);
    sem_post(&gate);
    sem_post(&gate);
    gs_stage_free(stage);
    check_each_was_seen_once(3);
}

static void pause_a_while(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
}

/* Put events until it has so many threads, each in the handler. Returns how many were put. */
static unsigned grow_to(struct gs_stage *stage, unsigned threads)
{
    struct gs_stage_figures figures;
    unsigned put = 0;
    do {
        CHECK(put < EVENTS);
        put_all(stage, put++, 1);
        pause_a_while();
        gs_stage_figures(stage, &figures);
    } while (figures.threads < threads);
    for (unsigned i = 0; i < threads; i++)
        sem_wait(&entered);
    return put;
}

static const struct gs_stage_options growing = {.handle = count_one_by_one,
                                                .batch_most = 1,
                                                .threads_most = 3,
                                                .controllers = GS_STAGE_THREADS};

TEST(threads_are_added_while_events_wait)
{
    struct gs_stage_figures figures;
    begin();
    struct gs_stage *stage = new_stage(growing);
    gs_stage_figures(stage, &figures);
    CHECK_EQ(figures.threads, 1);
    unsigned put = grow_to(stage, 3);
    put_all(stage, put, 50);
    gs_stage_figures(stage, &figures);
    CHECK_EQ(figures.threads, 3);
    for (unsigned i = 0; i < put + 50; i++)
        sem_post(&gate);
    gs_stage_free(stage);
    check_each_was_seen_once(put + 50);
}

TEST(a_thread_that_is_idle_ends_and_the_last_one_stays)
{
    struct gs_stage_figures figures;
    begin();
    struct gs_stage *stage = new_stage(growing);
    unsigned put = grow_to(stage, 2);
    for (unsigned i = 0; i <= put; i++)
        sem_post(&gate);
    do {
        pause_a_while();
        gs_stage_figures(stage, &figures);
    } while (figures.threads > 1);
    put_all(stage, put, 1);
    gs_stage_free(stage);
    check_each_was_seen_once(put + 1);
}

TEST(figures_tell_what_was_done)
{
    struct gs_stage_figures figures;
    begin();
    struct gs_stage *stage = new_stage(
        (struct gs_stage_options){.handle = count_one_by_one, .batch_most = 4, .threads_most = 1});
    put_all(stage, 0, 1);
    sem_wait(&entered);
    put_all(stage, 1, 8);
    for (int i = 0; i < 3; i++)
        sem_post(&gate);
    do
        gs_stage_figures(stage, &figures);
    while (figures.events < 9);
    CHECK_STR(figures.name, "test");
    CHECK_EQ(figures.batches, 3);
    CHECK_EQ(figures.queued, 0);
    CHECK_EQ(figures.threads, 1);
    CHECK_EQ(figures.batch, 4);
    CHECK(figures.wait_ns > 0 && figures.handle_ns > 0);
    CHECK_EQ(largest, 4);
    gs_stage_free(stage);
}

/* ---- On a loop ---- */

static pthread_t loop_thread;

static void count_in_loop(struct gs_batch *batch, void *data)
{
    CHECK(pthread_equal(pthread_self(), loop_thread));
    count(batch, data);
    if (handled == EVENTS)
        gs_loop_stop(data);
}

static void *put_everything(void *data)
{
    put_all(data, 0, EVENTS);
    return NULL;
}

TEST(a_stage_on_a_loop_is_served_by_the_loop)
{
    struct gs_loop *loop;
    pthread_t putter;
    begin();
    CHECK_EQ(gs_loop_new(&loop), 0);
    loop_thread = pthread_self();
    struct gs_stage *stage =
        new_stage((struct gs_stage_options){.handle = count_in_loop, .data = loop, .loop = loop});
    CHECK_EQ(pthread_create(&putter, NULL, put_everything, stage), 0);
    CHECK_EQ(gs_loop_run(loop), 0);
    pthread_join(putter, NULL);
    check_each_was_seen_once(EVENTS);
    gs_stage_free(stage);
    gs_loop_free(loop);
}

static void on_tick(struct gs_timer *timer)
{
    struct gs_stage *stage = timer->watcher.data;
    for (unsigned i = 0; i < 100; i++)
        CHECK_EQ(gs_outbox_put(gs_stage_outbox(stage), second, &jobs[i].event), 0);
}

TEST(what_a_loops_callbacks_put_is_delivered_before_it_waits)
{
    struct gs_loop *loop;
    struct gs_timer timer;
    begin();
    CHECK_EQ(gs_loop_new(&loop), 0);
    second = new_stage((struct gs_stage_options){.handle = count_one_by_one});
    struct gs_stage *stage = new_stage((struct gs_stage_options){.loop = loop});
    gs_timer_init(&timer, loop, on_tick);
    timer.watcher.data = stage;
    CHECK_EQ(gs_timer_start(&timer, 0), 0);
    CHECK(gs_loop_step(loop, GS_NEVER) >= 0);
    struct gs_stage_figures figures;
    gs_stage_figures(second, &figures);
    CHECK_EQ(figures.queued, 0);
    CHECK(gs_loop_step(loop, 0) >= 0);
    sem_wait(&entered);
    sem_post(&gate);
    gs_stage_free(stage);
    gs_stage_free(second);
    gs_loop_free(loop);
    check_each_was_seen_once(100);
    CHECK_EQ(calls, 1);
}

/* ---- What can't be ---- */

TEST(options_that_contradict_are_refused)
{
    struct gs_loop *loop;
    CHECK_EQ(gs_loop_new(&loop), 0);
    const struct gs_stage_options wrong[] = {
        {.threads_most = 1},
        {.handle = count},
        {.handle = count, .threads_most = 1, .loop = loop},
        {.handle = count, .loop = loop, .controllers = GS_STAGE_THREADS},
        {.handle = count, .threads_most = 1, .controllers = GS_STAGE_ADMISSION},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct gs_stage *stage;
        CHECK_EQ(gs_stage_new(&wrong[i], &stage), -EINVAL);
    }
    gs_stage_free(NULL);
    gs_loop_free(loop);
}

static void see_signals(struct gs_batch *batch, void *data)
{
    sigset_t *set = data;
    pthread_sigmask(SIG_BLOCK, NULL, set);
    count(batch, NULL);
}

TEST(its_threads_take_no_signals)
{
    sigset_t set;
    sigemptyset(&set);
    begin();
    struct gs_stage *stage =
        new_stage((struct gs_stage_options){.handle = see_signals, .data = &set});
    put_all(stage, 0, 1);
    gs_stage_free(stage);
    CHECK(sigismember(&set, SIGTERM) && sigismember(&set, SIGUSR1));
}
