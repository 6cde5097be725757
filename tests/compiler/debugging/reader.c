/* A thread that waits for the standard input, and the first one for the thread. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *work(void *argument)
{
    char byte;
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) == 1) /* waits */
        continue;
    return argument;
}

int main(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL);
}
