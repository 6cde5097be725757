/* What optimised code still has of the variables of an inlined function behind a wait. */
#include "waiting.h"

static __attribute__((noinline)) void look(const void *a, long b)
{
    __asm__ volatile("" ::"r"(a), "r"(b) : "memory");
}

static inline __attribute__((always_inline)) long take(char *bytes, struct client *client, int base)
{
    char name[16] = "none";
    int step = base + 2;
    look(name, 0);
    while (read(fds[0], bytes, 1) == 1) {
        client->number += step + bytes[0];
        look(name, step); /* here */
        look(bytes, client->number);
    }
    return client->number + name[0];
}

static void *work(void *argument)
{
    char line[80] = "";
    struct client client = {*(int *)argument, "kept"};
    look(&client, 0);
    return (void *)take(line, &client, 5);
}

int main(void)
{
    return let_wait_for("ab");
}
