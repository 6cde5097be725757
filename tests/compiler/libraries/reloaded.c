#include "reloaded.h"

#include <stdio.h>
#include <unistd.h>

int __cxa_thread_atexit_impl(void (*function)(void *), void *object, void *library);
extern char __dso_handle[];

/* It is reached by its distance from the pointer of the kernel thread. */
static _Thread_local __attribute__((tls_model("initial-exec"))) int sum = 5;
static _Thread_local int started;

__attribute__((constructor)) static void start(void)
{
    usleep(1);
    started = 7;
}

int reloaded_add(int number)
{
    sum += number;
    usleep(1);
    return sum + 100 * started;
}

static void end(void *number)
{
    usleep(1);
    printf("end %d, %d\n", *(int *)number, sum);
}

void reloaded_at_end(int *number)
{
    __cxa_thread_atexit_impl(end, number, __dso_handle);
}
