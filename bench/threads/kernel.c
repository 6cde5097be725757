/* Kernel threads, on one processor. */
#include "bench/threads/measure.h"

#include <pthread.h>
#include <sched.h>

#define FEWER 10 /* they are slow */

static void *nothing(void *argument)
{
    return argument;
}

static void *yield_often(void *argument)
{
    for (int i = 0; i < SWITCHES / FEWER; i++)
        sched_yield();
    return argument;
}

int main(int argc, char **argv)
{
    const char *figure = argc > 1 ? argv[1] : "";
    for (int round = 0; round < ROUNDS / FEWER; round++) {
        pthread_t a, b;
        if (!strcmp(figure, "switch")) {
            begin();
            must(!pthread_create(&a, NULL, yield_often, NULL) &&
                 !pthread_create(&b, NULL, yield_often, NULL));
            must(!pthread_join(a, NULL) && !pthread_join(b, NULL));
            end(2.0 * SWITCHES / FEWER);
        } else if (!strcmp(figure, "spawn")) {
            begin();
            for (int i = 0; i < SPAWNS / FEWER; i++)
                must(!pthread_create(&a, NULL, nothing, NULL) && !pthread_join(a, NULL));
            end((double)SPAWNS / FEWER);
        } else {
            return 2;
        }
    }
    printf("%.3f\n", best_ns);
    return 0;
}
