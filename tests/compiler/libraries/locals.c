#include "locals.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

_Thread_local int shared_local = 40;
static _Thread_local int calls_of_thread;
static _Thread_local int started;
static _Thread_local long sum;
static _Thread_local _Alignas(64) char large[300] = "first";
static _Thread_local atomic_int is_awake;
static _Atomic(atomic_int *) sleeper;

__attribute__((constructor)) static void start(void)
{
    started = 7;
}

int locals_count(int calls)
{
    for (int i = 0; i < calls; i++) {
        calls_of_thread++;
        usleep(1);
        shared_local++;
        programs_local += 2;
    }
    return calls_of_thread;
}

long locals_sum(long number, void (*between)(void))
{
    for (int i = 0; i < 4; i++) {
        sum += number;
        between();
    }
    return sum;
}

int locals_first(void)
{
    return large[0]++ + large[299]++ + ((size_t)large % 64 ? 1000 : 0);
}

int locals_started(void)
{
    return started;
}

static void *call(void *function)
{
    return (void *)(long)((int (*)(void))function)();
}

int locals_elsewhere(int (*function)(void))
{
    int all = 0;
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        void *result = NULL;
        pthread_create(&thread, NULL, call, (void *)function);
        pthread_join(thread, &result);
        all += (int)(long)result;
    }
    return all;
}

/* They know each other by the address alone. */
void locals_await(void)
{
    sleeper = &is_awake;
    while (!is_awake)
        usleep(100);
}

void locals_wake(void)
{
    atomic_int *other;
    while (!(other = sleeper))
        usleep(100);
    *other = &is_awake != other;
}
