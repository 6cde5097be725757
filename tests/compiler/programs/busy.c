/* Threads that compute for long on a stack, while others are ready: nothing is reported. */
#include "program.h"

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Variadic functions run on a stack if they may wait. */
static int compute_for(int count, ...)
{
    va_list list;
    va_start(list, count);
    double end_ms = now_ms() + va_arg(list, int);
    va_end(list);
    while (now_ms() < end_ms)
        ;
    sched_yield();
    return count;
}

static void *compute(void *argument)
{
    return compute_for(1, 100) ? argument : NULL;
}

static void *yield(void *argument)
{
    for (int i = 0; i < 10; i++)
        sched_yield();
    return argument;
}

int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i % 2 ? yield : compute, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
