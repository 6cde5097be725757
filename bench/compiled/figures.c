/* One figure of a program with POSIX threads, in nanoseconds or bytes; bench/compiled.py compiles
 * it by clang and by `gossamer cc`.
 *
 *     figures yield|create-and-join|first-create-and-join|call|memory [COUNT] */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    YIELDS = 1000000,
    THREADS = 200000,
    CALLS = 100000000,
    BLOCKED = 10000,
    BLOCKED_MAX = 100000,
};

static volatile int must_yield;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int blocked, is_over;
static int count = BLOCKED; /* of blocked threads */

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void start(pthread_t *thread, void *(*function)(void *), void *argument)
{
    int err = pthread_create(thread, NULL, function, argument);
    if (!err)
        return;
    fprintf(stderr, "figures: pthread_create: %s\n", strerror(err));
    exit(1);
}

static void *yield_often(void *unused)
{
    for (int i = 0; i < YIELDS; i++)
        sched_yield();
    return unused;
}

static double yield(void)
{
    pthread_t threads[2];
    double begin_ns = now_ns();
    for (int i = 0; i < 2; i++)
        start(&threads[i], yield_often, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return (now_ns() - begin_ns) / (2.0 * YIELDS);
}

static void *end(void *argument)
{
    return argument;
}

/* By the first thread, which has a stack. */
static double first_create_and_join(void)
{
    double begin_ns = now_ns();
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        start(&thread, end, NULL);
        pthread_join(thread, NULL);
    }
    return (now_ns() - begin_ns) / THREADS;
}

static void *create_and_join_often(void *ret_ns)
{
    *(double *)ret_ns = first_create_and_join();
    return NULL;
}

/* What another thread than the first measures. */
static double measured_by(void *(*fn)(void *ret_ns))
{
    double result_ns = 0;
    pthread_t thread;
    start(&thread, fn, &result_ns);
    pthread_join(thread, NULL);
    return result_ns;
}

static double create_and_join(void)
{
    return measured_by(create_and_join_often);
}

/* It may wait, and never does. */
static __attribute__((noinline)) unsigned may_wait(unsigned x)
{
    if (must_yield)
        sched_yield();
    return x * 2654435761u + 1;
}

static void *call_often(void *ret_ns)
{
    double begin_ns = now_ns();
    unsigned x = 1;
    for (int i = 0; i < CALLS; i++)
        x = may_wait(x);
    *(double *)ret_ns = (now_ns() - begin_ns + (x == 0)) / CALLS;
    return NULL;
}

static double call(void)
{
    return measured_by(call_often);
}

static __attribute__((noinline)) void wait_for_the_end(void)
{
    pthread_mutex_lock(&mutex);
    blocked++;
    while (!is_over)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
}

/* Two calls deep: this function, and the one that waits. */
static void *block(void *argument)
{
    wait_for_the_end();
    return argument;
}

static double resident_bytes(void)
{
    char line[128], *rest;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || !fgets(line, sizeof line, file))
        exit(1);
    fclose(file);
    strtol(line, &rest, 10); /* the size */
    return (double)strtol(rest, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

static void wait_for_blocked(void)
{
    for (bool is_complete = false; !is_complete; sched_yield()) {
        pthread_mutex_lock(&mutex);
        is_complete = blocked == count;
        pthread_mutex_unlock(&mutex);
    }
}

static double memory(void)
{
    static pthread_t ids[BLOCKED_MAX];
    memset(ids, 1, sizeof ids);
    double before = resident_bytes();
    for (int i = 0; i < count; i++)
        start(&ids[i], block, NULL);
    wait_for_blocked();
    double after = resident_bytes();
    pthread_mutex_lock(&mutex);
    is_over = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < count; i++)
        pthread_join(ids[i], NULL);
    return (after - before) / count;
}

static const struct {
    const char *name;
    double (*measure)(void);
} figures[] = {
    {"yield", yield},
    {"create-and-join", create_and_join},
    {"first-create-and-join", first_create_and_join},
    {"call", call},
    {"memory", memory},
};

int main(int argc, char **argv)
{
    if (argc == 3)
        count = (int)strtol(argv[2], NULL, 10);
    for (size_t i = 0; i < sizeof figures / sizeof *figures && argc >= 2 && count <= BLOCKED_MAX;
         i++) {
        if (strcmp(argv[1], figures[i].name))
            continue;
        printf("%.3f\n", figures[i].measure());
        return 0;
    }
    fputs("figures: no such figure\n", stderr);
    return 2;
}
