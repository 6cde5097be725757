/* Failures to create an additional thread for a stage. */
#include "stage/state.h"
#include "tests/test.h"

#include <semaphore.h>

enum { EVENTS = 1000, TIMEOUT_SECONDS = 30 };

static struct gs_event events[EVENTS];
static sem_t gate, in_pthread_create;
static atomic_bool has_failed;

static void handle_each(struct gs_batch *batch, void *unused)
{
    (void)unused;
    sem_wait(&gate);
    while (gs_batch_next(batch))
        ;
}

static void pause_briefly(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
}

/* Returns whether gs_stage_free waits only for the thread that is being created. */
static bool is_waiting_for_last_thread(struct gs_stage *stage)
{
    pthread_mutex_lock(&stage->lock);
    bool result = stage->is_ending && stage->threads == 1;
    pthread_mutex_unlock(&stage->lock);
    return result;
}

static atomic_bool fails_pthread_create;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);

/* The call fails only after the stage is being freed. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument)
{
    if (!atomic_load(&fails_pthread_create))
        return __real_pthread_create(thread, attributes, start, argument);
    atomic_store(&has_failed, true);
    sem_post(&in_pthread_create);
    while (!is_waiting_for_last_thread(argument))
        pause_briefly();
    return EAGAIN;
}

/* Let the stage handle all events, and free it. */
static void *free_concurrently(void *stage)
{
    sem_wait(&in_pthread_create);
    for (int i = 0; i < EVENTS; i++)
        sem_post(&gate);
    gs_stage_free(stage);
    return NULL;
}

TEST(stage_is_freed_while_the_creation_of_a_thread_fails)
{
    const struct gs_stage_options options = {
        .handle = handle_each, .max_batch = 1, .max_threads = 2, .controllers = GS_STAGE_THREADS};
    struct gs_stage *stage;
    pthread_t thread;
    sem_init(&gate, 0, 0);
    sem_init(&in_pthread_create, 0, 0);
    CHECK_EQ(gs_stage_new(&options, &stage), 0);
    CHECK_EQ(pthread_create(&thread, NULL, free_concurrently, stage), 0);
    alarm(TIMEOUT_SECONDS);
    atomic_store(&fails_pthread_create, true);
    for (int i = 0; !atomic_load(&has_failed); i++) {
        CHECK(i < EVENTS);
        CHECK_EQ(gs_stage_enqueue(stage, &events[i]), 0);
        pause_briefly();
    }
    pthread_join(thread, NULL);
    atomic_store(&fails_pthread_create, false);
    alarm(0);
}
