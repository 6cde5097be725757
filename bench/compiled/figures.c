/* One figure of a program with POSIX threads, in nanoseconds or bytes; bench/compiled.py compiles
 * it by clang and by `gossamer cc`.
 *
 *     figures yield|create-and-join|first-create-and-join|call|wait|memory|many|watched [COUNT] */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    YIELDS = 1000000,
    THREADS = 200000,
    CALLS = 100000000,
    ROUNDS = 100000,
    BLOCKED = 10000,
    MANY = 100000,
    OTHERS = 100, /* descriptors */
    SETTLING_US = 100000,
};

static volatile int must_yield;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int blocked, is_over;
static int count; /* of blocked threads; 0: the usual one */

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

static void pass_bytes(int fd)
{
    char byte;
    for (int i = 0; i < ROUNDS; i++)
        if (write(fd, "x", 1) != 1 || read(fd, &byte, 1) != 1)
            exit(1);
}

static void *pass_back(void *fd)
{
    pass_bytes((int)(intptr_t)fd);
    return NULL;
}

/* Both threads wait for each byte of the other. */
static double wait_for_bytes(void)
{
    int pair[2];
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        exit(1);
    double begin_ns = now_ns();
    start(&thread, pass_back, (void *)(intptr_t)pair[0]);
    pass_bytes(pair[1]);
    pthread_join(thread, NULL);
    return (now_ns() - begin_ns) / (2.0 * ROUNDS);
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

static void wait_for_blocked(int threads)
{
    for (bool is_complete = false; !is_complete; sched_yield()) {
        pthread_mutex_lock(&mutex);
        is_complete = blocked == threads;
        pthread_mutex_unlock(&mutex);
    }
}

static double blocked_memory(int threads)
{
    static pthread_t ids[MANY];
    memset(ids, 1, sizeof ids);
    double before = resident_bytes();
    for (int i = 0; i < threads; i++)
        start(&ids[i], block, NULL);
    wait_for_blocked(threads);
    double after = resident_bytes();
    pthread_mutex_lock(&mutex);
    is_over = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return (after - before) / threads;
}

static double memory(void)
{
    return blocked_memory(count ? count : BLOCKED);
}

static double many(void)
{
    return blocked_memory(count ? count : MANY);
}

static __attribute__((noinline)) void wait_for_a_byte(int fd)
{
    char byte;
    pthread_mutex_lock(&mutex);
    blocked++;
    pthread_mutex_unlock(&mutex);
    if (read(fd, &byte, 1) >= 0)
        exit(1);
}

/* Two calls deep, at a descriptor. */
static void *block_at(void *fd)
{
    wait_for_a_byte((int)(intptr_t)fd);
    return NULL;
}

/* Each thread has a descriptor of its own, as many as the process may have. */
static double watched(void)
{
    static int fds[MANY];
    struct rlimit limit;
    int pair[2], threads = count ? count : MANY;
    if (getrlimit(RLIMIT_NOFILE, &limit) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        exit(1);
    if (limit.rlim_max < (rlim_t)threads + OTHERS)
        threads = (int)limit.rlim_max - OTHERS;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    memset(fds, 1, sizeof fds);
    double before = resident_bytes(); /* before anything of a descriptor is known */
    for (int i = 0; i < threads; i++)
        if ((fds[i] = dup(pair[0])) < 0)
            exit(1);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        start(&thread, block_at, (void *)(intptr_t)fds[i]);
    }
    wait_for_blocked(threads);
    usleep(SETTLING_US);
    printf("%.3f\n", (resident_bytes() - before) / threads);
    fflush(stdout);
    _exit(0); /* the threads wait for ever */
}

static const struct {
    const char *name;
    double (*measure)(void);
} figures[] = {
    {"yield", yield},
    {"create-and-join", create_and_join},
    {"first-create-and-join", first_create_and_join},
    {"call", call},
    {"wait", wait_for_bytes},
    {"memory", memory},
    {"many", many},
    {"watched", watched},
};

int main(int argc, char **argv)
{
    count = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    for (size_t i = 0; i < sizeof figures / sizeof *figures && argc >= 2 && count <= MANY; i++) {
        if (strcmp(argv[1], figures[i].name))
            continue;
        printf("%.3f\n", figures[i].measure());
        return 0;
    }
    fputs("figures: no such figure\n", stderr);
    return 2;
}
