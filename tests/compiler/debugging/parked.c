/* A thread that waits two calls deep, each with variables. */
#include "waiting.h"
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
    return let_wait_for("ab");
}
