/* A process lowers its limit of descriptors, and forks. */
#include "program.h"

static void *wait_shortly(void *argument)
{
    usleep(1000);
    return argument;
}

static void run_thread(const char *name)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, wait_shortly, &thread);
    pthread_join(thread, &result);
    printf("%s: %d\n", name, result == &thread);
    fflush(stdout);
}

int main(void)
{
    const struct rlimit limit = {32, 32};
    int status = 0;
    run_thread("before");
    setrlimit(RLIMIT_NOFILE, &limit);
    pid_t child = fork();
    if (!child) {
        run_thread("child");
        _exit(3);
    }
    waitpid(child, &status, 0);
    run_thread("parent");
    printf("status: %d\n", WEXITSTATUS(status));
    return 0;
}
