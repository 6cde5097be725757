/* Threads that are created when the process may have no more memory, and when it may again. */
#include "tests/compat/pthread/program.h"

#include <sys/resource.h>

static void *return_it(void *argument)
{
    return argument;
}

static void use_up(void)
{
    const struct rlimit limit = {(rlim_t)16 << 20, RLIM_INFINITY};
    SHOW(setrlimit(RLIMIT_AS, &limit));
    for (size_t size = (size_t)1 << 20; size >= 4096; size /= 2)
        while (mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
            ;
}

int main(void)
{
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    pthread_t thread;
    use_up();
    SHOW(pthread_create(&thread, NULL, return_it, NULL));
    SHOW(setrlimit(RLIMIT_AS, &none));
    SHOW(pthread_create(&thread, NULL, return_it, (void *)5));
    SHOW(finish(thread));
    return 0;
}
