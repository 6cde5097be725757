/* State Threads. */
#include "bench/threads/measure.h"

#include <st.h>

static st_cond_t ping, pong, never;

static void *nothing(void *argument)
{
    return argument;
}

static void *answer(void *argument)
{
    for (int i = 0; i < SWITCHES; i++) {
        st_cond_signal(pong);
        st_cond_wait(ping);
    }
    return argument;
}

static void measure_condition(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        st_thread_t partner = st_thread_create(answer, NULL, 1, 0);
        begin();
        for (int i = 0; i < SWITCHES; i++) {
            st_cond_wait(pong);
            st_cond_signal(ping);
        }
        end(2 * SWITCHES);
        st_thread_join(partner, NULL);
    }
}

static void measure_spawn(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        begin();
        for (int i = 0; i < SPAWNS; i++)
            must(!st_thread_join(st_thread_create(nothing, NULL, 1, 0), NULL));
        end(SPAWNS);
    }
}

static long left;
static st_cond_t none_left;

static void *block(void *argument)
{
    st_cond_wait(never);
    if (!--left)
        st_cond_signal(none_left);
    return argument;
}

static void measure_many(const char *figure, long count)
{
    const char *field = !strcmp(figure, "tables") ? "VmPTE" : "VmRSS";
    warm_memory((size_t)count * THREAD_BYTES);
    double before = memory_of(field);
    begin();
    for (long i = 0; i < count; i++)
        must(st_thread_create(block, NULL, 0, 0) != NULL);
    st_sleep(0);
    if (!strcmp(figure, "create"))
        end((double)count);
    else
        best_ns = (memory_of(field) - before) / (double)count;
    if (strcmp(figure, "finish"))
        return;
    left = count;
    best_ns = 1e18;
    begin();
    st_cond_broadcast(never);
    st_cond_wait(none_left);
    end((double)count);
}

int main(int argc, char **argv)
{
    const char *figure = argc > 1 ? argv[1] : "";
    must(!st_init());
    ping = st_cond_new();
    pong = st_cond_new();
    never = st_cond_new();
    none_left = st_cond_new();
    if (!strcmp(figure, "condition"))
        measure_condition();
    else if (!strcmp(figure, "spawn"))
        measure_spawn();
    else if (!strcmp(figure, "memory") || !strcmp(figure, "tables") || !strcmp(figure, "create") ||
             !strcmp(figure, "finish"))
        measure_many(figure, argc > 2 ? strtol(argv[2], NULL, 10) : 10000);
    else
        return 2;
    printf("%.3f\n", best_ns);
    fflush(stdout);
    _Exit(0);
}
