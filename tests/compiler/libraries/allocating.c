/* A program with an allocator of its own (allocator.c). The C library and the runtime call it as
 * well as the program, wherever they are. */
#define _GNU_SOURCE
#include "allocator.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 8

static pthread_key_t key;

static void *run(void *argument)
{
    long number = (long)argument, sum = 0;
    char *last = NULL, *line;
#ifdef IS_COMPILED
    unsigned before = allocator_calls();
#endif
    pthread_setspecific(key, strdup("value"));
    for (int i = 0; i < 20; i++) {
        if (asprintf(&line, "%ld %d", number, i) < 0)
            abort();
        sum += (long)strlen(line);
        free(last);
        last = line;
        FILE *file = fmemopen(NULL, 100, "w+");
        fprintf(file, "%s", line);
        fclose(file);
        int *block = malloc(sizeof *block);
        if (!allocator_is_own(block))
            sum += 1000000;
        if (i % 8 == 0)
            usleep(10);
        free(block);
    }
    free(last);
#ifdef IS_COMPILED
    /* It has counted its own calls, and not those of others. */
    if (allocator_calls() - before < 60 || allocator_calls() - before > 600)
        sum += 10000;
#endif
    return (void *)sum;
}

static void start(pthread_t *thread, long number)
{
    pthread_attr_t attributes;
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    pthread_attr_init(&attributes);
    if (number % 2)
        pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
    pthread_create(thread, &attributes, run, (void *)number);
    pthread_attr_destroy(&attributes);
}

int main(void)
{
    pthread_t threads[THREADS];
    long sum = 0;
    void *result;
    allocator_be_slow();
    pthread_key_create(&key, free);
    for (int round = 0; round < 3; round++) {
        for (long i = 0; i < THREADS; i++)
            start(&threads[i], i);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], &result);
            sum += (long)result;
        }
    }
    printf("sum %ld, together %d\n", sum, allocator_together());
    return 0;
}
