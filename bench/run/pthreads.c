/* pthreads WORK COUNT: what threads of POSIX cost a program, for comparing kernel threads with
 * `gossamer run pthreads ...`. Prints nanoseconds of time and of CPU for each unit of work.
 *
 *     condition   two threads pass a turn by a mutex and a condition variable
 *     create      a thread is created and joined
 *     pool        eight threads compute in a pool
 *     single      one thread makes system calls and computes
 *     blocked     COUNT threads wait for a semaphore; prints bytes of memory for each, too */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { POOL = 8, STACK = 64 << 10 };

static long count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long turn;
static atomic_long next_part;
static sem_t semaphore, is_there;

static double now_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void *pass_turns(void *which)
{
    for (long i = 0; i < count; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % 2 != (long)which)
            pthread_cond_wait(&condition, &mutex);
        turn++;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *nothing(void *argument)
{
    return argument;
}

static uint64_t compute(uint64_t seed)
{
    for (int i = 0; i < 100000; i++)
        seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed;
}

static void *compute_parts(void *unused)
{
    volatile uint64_t sum = 0;
    while (atomic_fetch_add(&next_part, 1) < count)
        sum += compute(sum);
    return unused;
}

static void *wait_long(void *unused)
{
    sem_post(&is_there);
    sem_wait(&semaphore);
    return unused;
}

static int start_all(pthread_t *threads, long n, void *(*fn)(void *))
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    for (long i = 0; i < n; i++) {
        int err = pthread_create(&threads[i], &attributes, fn, (void *)i);
        if (err) {
            fprintf(stderr, "thread %ld: %s\n", i, strerror(err));
            return -1;
        }
    }
    return 0;
}

static void join_all(const pthread_t *threads, long n)
{
    for (long i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static void work_single(void)
{
    volatile uint64_t sum = 0;
    for (long i = 0; i < count; i++) {
        sum += compute((uint64_t)getppid());
        (void)!read(-1, NULL, 0);
    }
}

static long number_after(const char *name)
{
    char line[128];
    long number = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file)
        exit(1);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            number = strtol(line + strlen(name), NULL, 10);
    fclose(file);
    return number;
}

/* Of the process, and what the kernel has for its threads: 16 KiB of stack each. */
static long memory(void)
{
    return number_after("VmRSS:") * 1024 + number_after("Threads:") * 16384;
}

static int work_blocked(void)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    long before = memory();
    if (!threads || start_all(threads, count, wait_long))
        return -1;
    for (long i = 0; i < count; i++)
        sem_wait(&is_there);
    printf("%.0f bytes each, ", (double)(memory() - before) / (double)count);
    for (long i = 0; i < count; i++)
        sem_post(&semaphore);
    join_all(threads, count);
    free(threads);
    return 0;
}

static int work(const char *name)
{
    pthread_t threads[POOL];
    if (!strcmp(name, "condition")) {
        if (start_all(threads, 2, pass_turns))
            return -1;
        join_all(threads, 2);
    } else if (!strcmp(name, "create")) {
        for (long i = 0; i < count; i++) {
            if (start_all(threads, 1, nothing))
                return -1;
            join_all(threads, 1);
        }
    } else if (!strcmp(name, "pool")) {
        if (start_all(threads, POOL, compute_parts))
            return -1;
        join_all(threads, POOL);
    } else if (!strcmp(name, "single")) {
        work_single();
    } else {
        return work_blocked();
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: pthreads condition|create|pool|single|blocked COUNT\n");
        return 2;
    }
    count = strtol(argv[2], NULL, 10);
    sem_init(&semaphore, 0, 0);
    sem_init(&is_there, 0, 0);
    double start = now_ns(CLOCK_MONOTONIC), start_cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (work(argv[1]))
        return 1;
    printf("%s: %.1f ns, %.1f ns of CPU\n", argv[1],
           (now_ns(CLOCK_MONOTONIC) - start) / (double)count,
           (now_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu) / (double)count);
    return 0;
}
