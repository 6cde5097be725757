/* A loop that waits: its block of code is reached from the wait and without it. */
#include "waiting.h"
static __attribute__((noinline)) long look(const char *bytes, long n)
{
    __asm__ volatile("" ::"r"(bytes), "r"(n) : "memory");
    return n + bytes[0];
}
static void *work(void *argument)
{
    char line[80] = "", *volatile place = line;
    long sum = *(int *)argument;
    while (read(fds[0], place, 1) == 1)
        sum += look(line, sum);
    return (void *)sum;
}
int main(void)
{
    return let_wait_for("ab");
}
