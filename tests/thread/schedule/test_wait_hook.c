/* The wait function in the options of a run. */
#include "tests/test.h"

#include <gossamer/io.h>
#include <gossamer/loop.h>
#include <gossamer/sync.h>

static atomic_uint calls[3];
static int token;

/* Polls twice before it sleeps. */
static int look_and_sleep(struct gs_loop *loop, unsigned worker, void *data)
{
    if (data != &calls || worker < 1 || worker > 2)
        return -EINVAL;
    unsigned call = atomic_fetch_add(&calls[worker], 1);
    return gs_loop_run_once(loop, call % 3 == 2 ? GS_NEVER : 0);
}

static void *sleep_for_a_while(void *argument)
{
    for (int i = 0; i < 5; i++)
        gs_thread_sleep(gs_clock_now() + GS_MILLISECOND);
    return argument;
}

TEST(a_worker_waits_with_the_programs_function)
{
    const struct gs_threads_options options = {.wait = look_and_sleep, .wait_data = &calls};
    void *result = NULL;
    memset(calls, 0, sizeof calls);
    CHECK_EQ(gs_threads_run(&options, sleep_for_a_while, &token, &result), 0);
    CHECK(result == &token);
    CHECK(calls[1] >= 5);
    CHECK_EQ(calls[2], 0);
}

enum { HAND_OVERS = 300 };

static struct gs_semaphore there, back;

/* On a busy machine a worker may find each wake-up before it waits for one. */
static void sleep_until_worker_waited(unsigned worker)
{
    while (!calls[worker])
        gs_thread_sleep(gs_clock_now() + GS_MILLISECOND);
}

static void *answer(void *argument)
{
    for (int i = 0; i < HAND_OVERS; i++) {
        (void)!gs_semaphore_wait(&there, GS_NEVER);
        gs_semaphore_post(&back);
    }
    sleep_until_worker_waited(2);
    return argument;
}

static void *ask(void *argument)
{
    for (int i = 0; i < HAND_OVERS; i++) {
        gs_semaphore_post(&there);
        (void)!gs_semaphore_wait(&back, GS_NEVER);
    }
    sleep_until_worker_waited(1);
    return argument;
}

/* The first thread may run on any worker. */
static void *ask_elsewhere(void *argument)
{
    const struct gs_thread_attributes one = {.worker = 1}, two = {.worker = 2};
    struct gs_thread *asking, *answering;
    if (gs_thread_spawn(&two, answer, NULL, &answering))
        return NULL;
    if (gs_thread_spawn(&one, ask, NULL, &asking) || gs_thread_join(asking, GS_NEVER, NULL))
        return NULL;
    return gs_thread_join(answering, GS_NEVER, NULL) ? NULL : argument;
}

TEST(no_wake_up_from_another_worker_is_lost_with_any_primitive)
{
    const struct gs_threads_options options = {
        .workers = 2, .wait = look_and_sleep, .wait_data = &calls};
    void *result = NULL;
    memset(calls, 0, sizeof calls);
    CHECK_EQ(gs_threads_run(&options, ask_elsewhere, &token, &result), 0);
    CHECK(result == &token);
}

static int fail(struct gs_loop *loop, unsigned worker, void *data)
{
    (void)loop;
    (void)worker;
    (void)data;
    return -EIO;
}

TEST(a_wait_that_fails_ends_all_threads_with_its_error)
{
    const struct gs_threads_options options = {.wait = fail, .is_silent = true};
    CHECK_EQ(gs_threads_run(&options, sleep_for_a_while, NULL, NULL), -EIO);
}
