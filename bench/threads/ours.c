/* Gossamer's user-level threads. */
#include "bench/threads/measure.h"

#include <gossamer/sync.h>
#include <gossamer/thread.h>
#include <stdatomic.h>

static const char *figure;
static long count;
static struct gs_cond ping, pong, never;
static struct gs_mutex mutex;
static struct gs_wait_group blocked;

static void *nothing(void *argument)
{
    return argument;
}

static struct gs_thread *spawn(gs_thread_fn *fn)
{
    /* The threads stay on the worker that measures, even if there are several workers. */
    const struct gs_thread_attributes here = {.worker = 1};
    struct gs_thread *thread = NULL;
    must(!gs_thread_spawn(&here, fn, NULL, &thread));
    return thread;
}

static void *yield_often(void *argument)
{
    for (int i = 0; i < SWITCHES; i++)
        gs_thread_yield();
    return argument;
}

static void measure_switch(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct gs_thread *a = spawn(yield_often), *b = spawn(yield_often);
        begin();
        must(!gs_thread_join(a, GS_NEVER, NULL) && !gs_thread_join(b, GS_NEVER, NULL));
        end(2 * SWITCHES);
    }
}

static void *answer(void *argument)
{
    for (int i = 0; i < SWITCHES; i++) {
        gs_cond_signal(&pong);
        must(!gs_cond_wait(&ping, NULL, GS_NEVER));
    }
    return argument;
}

static void measure_condition(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct gs_thread *partner = spawn(answer);
        begin();
        for (int i = 0; i < SWITCHES; i++) {
            must(!gs_cond_wait(&pong, NULL, GS_NEVER));
            gs_cond_signal(&ping);
        }
        end(2 * SWITCHES);
        must(!gs_thread_join(partner, GS_NEVER, NULL));
    }
}

static void measure_spawn(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        begin();
        for (int i = 0; i < SPAWNS; i++)
            must(!gs_thread_join(spawn(nothing), GS_NEVER, NULL));
        end(SPAWNS);
    }
}

static void measure_mutex(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        begin();
        for (int i = 0; i < SWITCHES; i++) {
            gs_mutex_lock(&mutex, GS_NEVER);
            gs_mutex_unlock(&mutex);
        }
        end(SWITCHES);
    }
}

static void measure_exchange(void)
{
    static _Atomic(long) word;
    for (int round = 0; round < ROUNDS; round++) {
        begin();
        for (int i = 0; i < SWITCHES; i++) {
            long zero = 0, one = 1;
            must(atomic_compare_exchange_strong(&word, &zero, 1));
            must(atomic_compare_exchange_strong(&word, &one, 0));
        }
        end(SWITCHES);
    }
}

static void *block(void *argument)
{
    must(!gs_cond_wait(&never, NULL, GS_NEVER));
    gs_wait_group_done(&blocked);
    return argument;
}

static struct gs_thread **parked;

static void *park(void *place)
{
    *(struct gs_thread **)place = gs_thread_self();
    must(!gs_thread_park(GS_NEVER));
    gs_wait_group_done(&blocked);
    return NULL;
}

static void shuffle(void)
{
    for (long i = count - 1; i > 0; i--) {
        long other = random() % (i + 1);
        struct gs_thread *thread = parked[i];
        parked[i] = parked[other];
        parked[other] = thread;
    }
}

/* Measures threads that share stacks, and are woken one by one, in random order. */
static void measure_random(void)
{
    const struct gs_thread_attributes attributes = {.stack_is_shared = true};
    parked = calloc((size_t)count, sizeof *parked);
    must(parked != NULL);
    gs_wait_group_add(&blocked, (uint64_t)count);
    for (long i = 0; i < count; i++)
        must(!gs_thread_spawn(&attributes, park, &parked[i], NULL));
    gs_thread_yield();
    shuffle();
    begin();
    for (long i = 0; i < count; i++)
        gs_thread_unpark(parked[i]);
    must(!gs_wait_group_wait(&blocked, GS_NEVER));
    end((double)count);
    free(parked);
}

/* What memory the blocked threads take, with their page tables if they share stacks. */
static double memory_used(bool is_shared)
{
    if (!strcmp(figure, "tables"))
        return memory_of("VmPTE");
    return memory_of("VmRSS") + (is_shared ? memory_of("VmPTE") : 0);
}

static bool figure_ends_with(const char *end)
{
    return strstr(figure, end);
}

/* Measures threads that block, with stacks of their own or shared ones; all of them are woken at
 * the end and finish. */
static void measure_many(void)
{
    bool is_shared = !strncmp(figure, "shared", 6);
    const struct gs_thread_attributes attributes = {.stack_is_shared = is_shared};
    warm_memory((size_t)count * THREAD_BYTES);
    double before = memory_used(is_shared);
    gs_wait_group_add(&blocked, (uint64_t)count);
    begin();
    for (long i = 0; i < count; i++)
        must(!gs_thread_spawn(&attributes, block, NULL, NULL));
    gs_thread_yield();
    if (figure_ends_with("create"))
        end((double)count);
    else
        best_ns = (memory_used(is_shared) - before) / (double)count;
    begin();
    gs_cond_broadcast(&never);
    must(!gs_wait_group_wait(&blocked, GS_NEVER));
    if (figure_ends_with("finish")) {
        best_ns = 1e18;
        end((double)count);
    }
}

#define WORKING 8
#define PIECES 400
#define PIECE 2000 /* steps between two yields; they take some microseconds */

static void *work(void *argument)
{
    uint64_t number = (uintptr_t)argument + 1;
    for (int i = 0; i < PIECES; i++) {
        for (int step = 0; step < PIECE; step++)
            number = number * 6364136223846793005u + 1442695040888963407u;
        gs_thread_yield();
    }
    return (void *)(uintptr_t)number;
}

/* Measures independent threads that run on any worker. */
static void measure_work(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct gs_thread *threads[WORKING];
        begin();
        for (size_t i = 0; i < WORKING; i++)
            must(!gs_thread_spawn(NULL, work, (void *)i, &threads[i]));
        for (size_t i = 0; i < WORKING; i++)
            must(!gs_thread_join(threads[i], GS_NEVER, NULL));
        end(WORKING * PIECES);
    }
}

static const struct {
    const char *name;
    void (*measure)(void);
    unsigned workers;
} figures[] = {
    {"switch", measure_switch, 1},
    {"switch2", measure_switch, 2},
    {"condition", measure_condition, 1},
    {"condition2", measure_condition, 2},
    {"spawn", measure_spawn, 1},
    {"mutex2", measure_mutex, 2},
    {"exchange", measure_exchange, 1},
    {"memory", measure_many, 1},
    {"tables", measure_many, 1},
    {"create", measure_many, 1},
    {"finish", measure_many, 1},
    {"shared", measure_many, 1},
    {"shared create", measure_many, 1},
    {"shared finish", measure_many, 1},
    {"work", measure_work, 1},
    {"work2", measure_work, 2},
    {"shared random", measure_random, 1},
};

static void *run(void *measure)
{
    (*(void (**)(void))measure)();
    return NULL;
}

int main(int argc, char **argv)
{
    figure = argc > 1 ? argv[1] : "";
    count = argc > 2 ? strtol(argv[2], NULL, 10) : 10000;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const struct gs_threads_options options = {.workers = figures[i].workers};
        if (strcmp(figure, figures[i].name))
            continue;
        must(!gs_threads_run(&options, run, (void *)&figures[i].measure, NULL));
        printf("%.3f\n", best_ns);
        return 0;
    }
    return 2;
}
