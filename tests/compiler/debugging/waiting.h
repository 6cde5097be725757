/* What the programs share: a thread that waits for bytes while gdb looks at it. Each defines
 * `work`, the thread's function. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
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
static void *work(void *argument);
/* Returns the program's status. */
static int let_wait_for(const char *bytes)
{
    pthread_t thread;
    int number = 41;
    void *result;
    if (pipe(fds) || pthread_create(&thread, NULL, work, &number))
        return 1;
    sched_yield();
    stop_here();
    if (write(fds[1], bytes, strlen(bytes)) != (ssize_t)strlen(bytes))
        return 1;
    pthread_join(thread, &result);
    printf("%ld\n", (long)result);
    return 0;
}
