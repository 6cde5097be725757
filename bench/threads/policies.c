/* The benefit of scheduling policies: PROGRAM response|places first|shortest|cohort prints one
 * number.
 *
 *     response: threads with very different amounts of work start together; the mean time until one
 *               finishes, in pieces of work of any thread
 *     places:   threads that wait at many places, each with its own data; nanoseconds per turn */
#include "bench/threads/measure.h"

#include <gossamer/sync.h>

/* ---- Response ---- */

#define JOBS 2000
#define SMALL 2
#define LARGE 200 /* in pieces of work; every tenth job is large */

static double pieces, responses;

static void *work(void *argument)
{
    uint64_t left = (uintptr_t)argument % 10 ? SMALL : LARGE;
    for (; left; left--) {
        gs_thread_set_remaining(left);
        gs_thread_yield();
        pieces++;
    }
    responses += pieces;
    return NULL;
}

static void measure_response(void)
{
    struct gs_thread *threads[JOBS];
    for (size_t i = 0; i < JOBS; i++)
        must(!gs_thread_spawn(NULL, work, (void *)i, &threads[i]));
    for (size_t i = 0; i < JOBS; i++)
        must(!gs_thread_join(threads[i], GS_NEVER, NULL));
    best_ns = responses / JOBS;
}

/* ---- Places ---- */

#define PLACES 256
#define AT_EACH 16
#define BYTES (24 << 10)

static struct gs_cond places[PLACES];
static char data[PLACES][BYTES];
static struct gs_wait_group turns;
static bool is_finished;

static void *wait_there(void *argument)
{
    size_t place = (uintptr_t)argument;
    for (;;) {
        must(!gs_cond_wait(&places[place], NULL, GS_NEVER));
        if (is_finished)
            return NULL;
        for (size_t i = 0; i < BYTES; i += 64)
            data[place][i]++;
        gs_wait_group_done(&turns);
    }
}

static void wake_all_in_turn(void)
{
    for (size_t i = 0; i < AT_EACH; i++)
        for (size_t place = 0; place < PLACES; place++)
            gs_cond_signal(&places[place]);
}

static void measure_places(void)
{
    for (size_t i = 0; i < (size_t)PLACES * AT_EACH; i++)
        must(!gs_thread_spawn(NULL, wait_there, (void *)(i % PLACES), NULL));
    gs_thread_yield();
    for (int round = 0; round < ROUNDS; round++) {
        gs_wait_group_add(&turns, (uint64_t)PLACES * AT_EACH);
        begin();
        wake_all_in_turn();
        must(!gs_wait_group_wait(&turns, GS_NEVER));
        end((double)PLACES * AT_EACH);
    }
    is_finished = true;
    wake_all_in_turn();
}

static void *run(void *argument)
{
    if (!strcmp(argument, "places"))
        measure_places();
    else
        measure_response();
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        const struct gs_policy *policy;
    } policies[] = {
        {"first", NULL}, {"shortest", &gs_policy_shortest}, {"cohort", &gs_policy_cohort}};
    for (size_t i = 0; argc > 2 && i < sizeof policies / sizeof *policies; i++) {
        const struct gs_threads_options options = {.policy = policies[i].policy};
        if (strcmp(argv[2], policies[i].name))
            continue;
        must(!gs_threads_run(&options, run, argv[1], NULL));
        printf("%.3f\n", best_ns);
        return 0;
    }
    return 2;
}
