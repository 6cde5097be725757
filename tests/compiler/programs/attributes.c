/* The attributes of threads that run. */
#include "program.h"

static void look(const char *name)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    int detached;
    struct rlimit limit;
    const char *frame = __builtin_frame_address(0);
    getrlimit(RLIMIT_STACK, &limit);
    if (pthread_getattr_np(pthread_self(), &attributes) ||
        pthread_attr_getstack(&attributes, &lowest, &size) ||
        pthread_attr_getdetachstate(&attributes, &detached))
        abort();
    pthread_attr_destroy(&attributes);
    printf("%s: inside %d, detached %d, as large as usual %d\n", name,
           frame >= (char *)lowest && frame < (char *)lowest + size, detached,
           size + 65536 >= (limit.rlim_cur == RLIM_INFINITY ? 1 << 20 : limit.rlim_cur));
    /* What a collector of garbage does. */
    volatile char sum = 0;
    for (const char *at = frame; at < (char *)lowest + size && at < frame + 1024; at += 64)
        sum = (char)(sum + *(const volatile char *)at);
}

static int look_back(const void *one, const void *other)
{
    look("called back");
    return *(const int *)one - *(const int *)other;
}

/* A variable of no constant size: this runs on a stack. */
static void look_on_stack(int n)
{
    char bytes[n];
    memset(bytes, n, (size_t)n);
    look(bytes[0] == n ? "on a stack" : "?");
}

static void *all(void *argument)
{
    int numbers[] = {2, 1};
    look(argument);
    qsort(numbers, 2, sizeof numbers[0], look_back);
    look_on_stack(33);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    setvbuf(stdout, NULL, _IOLBF, 0);
    all("first");
    pthread_create(&thread, NULL, all, "thread");
    pthread_join(thread, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_create(&thread, &attributes, all, "detached");
    pthread_exit(NULL);
}
