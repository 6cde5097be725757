/* many_threads N [GUARD]: N threads that wait, each in turn at a condition variable, at a semaphore
 * or, as long as there are descriptors, in a read of one of its own. Prints how many waited,
 * whether the process had at most 16 kernel threads meanwhile (its workers and the receiver of
 * signals), and how many ended. GUARD is the size of the guards of stacks, instead of a page. */
#include "tests/compat/pthread/program.h"

#include <limits.h>

enum { STACK_SIZE = 64 << 10, KERNEL_THREADS_MAX = 16, EVENTS_MAX = 400 };
enum { AT_CONDITION, AT_SEMAPHORE, AT_EVENT };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, all_wait = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int events[EVENTS_MAX];
static long waiting;
static bool is_over;

static void wait_at_condition(void)
{
    while (!is_over)
        pthread_cond_wait(&condition, &mutex);
}

static long way_of(long thread)
{
    return thread % 3 == AT_EVENT && thread / 3 >= EVENTS_MAX ? AT_CONDITION : thread % 3;
}

static void *wait_for_end(void *argument)
{
    uint64_t value;
    long thread = (long)argument, way = way_of(thread);
    pthread_mutex_lock(&mutex);
    waiting++;
    pthread_cond_signal(&all_wait);
    if (way == AT_CONDITION)
        wait_at_condition();
    pthread_mutex_unlock(&mutex);
    if (way == AT_SEMAPHORE)
        sem_wait(&semaphore);
    else if (way == AT_EVENT && read(events[thread / 3], &value, sizeof value) != sizeof value)
        return NULL;
    return &mutex;
}

static bool has_few_kernel_threads(void)
{
    char line[256];
    long n = LONG_MAX;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "Threads:", 8))
            n = strtol(line + 8, NULL, 10);
    if (file)
        fclose(file);
    return n <= KERNEL_THREADS_MAX;
}

static void end_all(long n)
{
    pthread_mutex_lock(&mutex);
    is_over = true;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    for (long i = 0; i < n; i++) {
        sem_post(&semaphore);
        if (way_of(i) == AT_EVENT && eventfd_write(events[i / 3], 1))
            exit(4);
    }
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : 1000, started = 0, ended = 0;
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    pthread_attr_t attributes;
    int err = 0;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    if (argc > 2)
        pthread_attr_setguardsize(&attributes, strtoul(argv[2], NULL, 10));
    sem_init(&semaphore, 0, 0);
    for (size_t i = 0; i < EVENTS_MAX; i++)
        events[i] = eventfd(0, EFD_CLOEXEC);
    for (; started < n && !err; started += !err) {
        void *thread = (void *)started; // NOLINT(performance-no-int-to-ptr)
        err = pthread_create(&threads[started], &attributes, wait_for_end, thread);
    }
    if (err)
        fprintf(stderr, "after %ld threads: %s\n", started, strerror(err));
    pthread_mutex_lock(&mutex);
    while (waiting < started)
        pthread_cond_wait(&all_wait, &mutex);
    pthread_mutex_unlock(&mutex);
    printf("%ld wait, few kernel threads: %d\n", waiting, has_few_kernel_threads());
    end_all(started);
    for (long i = 0; i < started; i++)
        ended += finish(threads[i]) != 0;
    printf("%ld ended\n", ended);
    return started != n;
}
