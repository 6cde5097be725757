/* Calls a library only through a variable of it. */
#define _GNU_SOURCE
#include "waiting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int square(int i)
{
    usleep(500);
    return i * i;
}

static void *add(void *count)
{
    return (void *)library_operations.sum(square, (int)(long)count);
}

/* What the C library gets when it starts is there before main, and in constructors. */
static int environments;

__attribute__((constructor)) static void look(void)
{
    environments += getenv("PATH") && *program_invocation_short_name;
}

int main(void)
{
    pthread_t threads[3];
    void *result;
    look();
    setenv("ANOTHER", "", 1);
    look();
    printf("%d of 3\n", environments);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, add, (void *)(long)(i + 3));
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &result);
        printf("%ld\n", (long)result);
    }
    return 0;
}
