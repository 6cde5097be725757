/* Calls a library only through a variable of it. */
#include "waiting.h"

#include <stdio.h>
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

int main(void)
{
    pthread_t threads[3];
    void *result;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, add, (void *)(long)(i + 3));
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &result);
        printf("%ld\n", (long)result);
    }
    return 0;
}
