/* A hundred thousand waiting threads, or the number given as argument: prints the memory used per
 * thread, and resumes all of them. */
#include <gossamer/sync.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static struct gs_wait_group waiting, done;
static struct gs_semaphore start;
static unsigned long sum;

static void *work(void *number)
{
    gs_wait_group_done(&waiting);
    int err = gs_semaphore_wait(&start, GS_NEVER);
    if (!err)
        sum += (unsigned long)(uintptr_t)number;
    gs_wait_group_done(&done);
    return NULL;
}

/* Returns the peak resident memory so far, in bytes. */
static unsigned long peak_memory(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return (unsigned long)usage.ru_maxrss * 1024;
}

static void *run(void *argument)
{
    unsigned long count = *(unsigned long *)argument, started = 0, before = peak_memory();
    const struct gs_thread_attributes attributes = {.name = "one of many", .stack_size = 16384};
    int err = 0;
    while (started < count && !(err = gs_thread_spawn(&attributes, work, (void *)started, NULL))) {
        gs_wait_group_add(&waiting, 1);
        gs_wait_group_add(&done, 1);
        started++;
    }
    if (!gs_wait_group_wait(&waiting, GS_NEVER))
        printf("%lu threads wait, using %lu bytes each\n", started,
               (peak_memory() - before) / (started ? started : 1));
    for (unsigned long i = 0; i < started; i++)
        gs_semaphore_post(&start);
    if (!gs_wait_group_wait(&done, GS_NEVER))
        printf("all threads have resumed: the sum of their numbers is %lu\n", sum);
    return (void *)(intptr_t)err;
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
    void *err;
    return gs_threads_run(NULL, run, &count, &err) || err;
}
