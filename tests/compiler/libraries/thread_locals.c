/* Thread-local variables of a library, of the program that uses it, and of what both reach. */
#define _GNU_SOURCE
#include "locals.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 6

_Thread_local int programs_local = 3;
static _Thread_local int own = 1;

static void wait_a_little(void)
{
    own++;
    usleep(1);
}

static int count_own(void)
{
    return ++own;
}

struct result {
    int count, first, started, shared, programs, own;
    long sum;
};

static void *run(void *argument)
{
    long number = (long)argument;
    struct result *result = malloc(sizeof *result);
    shared_local += (int)number;
    result->first = locals_first();
    result->count = locals_count((int)number % 3 + 2);
    result->sum = locals_sum(number, wait_a_little);
    usleep(10);
    result->count += locals_count(1);
    result->first += locals_first();
    result->started = locals_started();
    result->shared = shared_local;
    result->programs = programs_local;
    result->own = own;
    return result;
}

static void print(long number, struct result *result)
{
    printf("%ld: count %d, first %d, started %d, shared %d, programs %d, own %d, sum %ld\n", number,
           result->count, result->first, result->started, result->shared, result->programs,
           result->own, result->sum);
    free(result);
}

/* The copy of the library is reached by its functions alone. */
static void *await(void *library)
{
    ((void (*)(void))dlsym(library, "locals_await"))();
    return NULL;
}

static void *load(void *unused)
{
    const char *path = getenv("COPY_OF_LIBRARY");
    for (int i = 0; path && i < 2; i++) {
        void *library = dlopen(path, RTLD_NOW);
        if (library)
            printf("count %d\n", ((int (*)(int))dlsym(library, "locals_count"))(2));
        if (library)
            dlclose(library);
    }
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    if (!library)
        return unused;
    /* It is the thread that has loaded the library in which this has started. */
    int (*started)(void) = (int (*)(void))dlsym(library, "locals_started");
    int (*first)(void) = (int (*)(void))dlsym(library, "locals_first");
    printf("loaded: started %d, first %d\n", started(), first());
    return library;
}

int main(void)
{
    pthread_t threads[THREADS];
    void *result, *library;
    printf("started %d, elsewhere %d\n", locals_started(), locals_elsewhere(count_own));
    for (int round = 0; round < 2; round++) {
        for (long i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, run, (void *)i);
        print(-1, run((void *)10L));
        for (long i = 0; i < THREADS; i++) {
            pthread_join(threads[i], &result);
            print(i, result);
        }
    }
    pthread_create(&threads[0], NULL, load, NULL);
    pthread_join(threads[0], &library);
    if (!library)
        return 0;
    printf("first %d\n", ((int (*)(void))dlsym(library, "locals_started"))());
    pthread_create(&threads[0], NULL, await, library);
    ((void (*)(void))dlsym(library, "locals_wake"))();
    pthread_join(threads[0], NULL);
    return 0;
}
