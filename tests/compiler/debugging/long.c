/* A function of over 1,000 instructions, which keeps its values in slots, and waits once. */
#include "waiting.h"
#define STEP sum = sum * 3 + (unsigned)number, number ^= (int)(sum % 1000);
#define FOUR STEP STEP STEP STEP
#define SIXTEEN FOUR FOUR FOUR FOUR
#define HUNDREDS SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN SIXTEEN
static __attribute__((noinline)) unsigned compute(const struct client *client, int number)
{
    unsigned sum = 5;
    char byte = 'x', line[8] = "a line";
    HUNDREDS
    number = client->number + 1;
    sum = (unsigned)number + 57;
    if (read(fds[0], &byte, 1) != 1) /* waits */
        return 0;
    sum += (unsigned)byte; /* here */
    HUNDREDS
    return sum + (unsigned)line[number & 3] + (unsigned)client->number;
}
static void *work(void *argument)
{
    struct client client = {*(int *)argument, "first"};
    return (void *)(long)compute(&client, 7); /* calls */
}
int main(void)
{
    return let_wait_for("a");
}
