/* A thread that waits two calls deep, each with variables. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
struct client {
    int number;
    const char *name;
};
static int fds[2];
static __attribute__((noinline)) void stop_here(void)
{
    fflush(stdout);
}
static __attribute__((noinline)) int get(struct client *client, int want)
{
    char byte = 'x';
    if (read(fds[0], &byte, 1) != 1) /* waits */
        return -1;
    return client->number + want + byte; /* here */
}
static void *work(void *argument)
{
    struct client client = {*(int *)argument, "first"};
    char line[80] = "a line";
    long sum = 5;
    for (int round = 7; round < 9; round++)
        sum += get(&client, round); /* calls */
    return (void *)(sum + line[0]);
}
int main(void)
{
    pthread_t thread;
    int number = 41;
    void *result;
    if (pipe(fds) || pthread_create(&thread, NULL, work, &number))
        return 1;
    sched_yield();
    stop_here();
    if (write(fds[1], "ab", 2) != 2)
        return 1;
    pthread_join(thread, &result);
    printf("%ld\n", (long)result);
    return 0;
}
