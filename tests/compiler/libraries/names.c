/* Libraries know which thread calls, and keep the functions that a program gives them. */
#define _GNU_SOURCE
#include "waiting.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define THREADS 4
#define TICKS 10

static pthread_barrier_t barrier;

/* In place of the C library's, also for libraries. */
ssize_t readv(int fd, const struct iovec *parts, int count)
{
    (void)fd, (void)parts, (void)count;
    return 77;
}

static ssize_t hook(int fd, void *bytes, size_t n)
{
    (void)fd;
    memset(bytes, 'x', n);
    return (ssize_t)n;
}

static void *know(void *ids)
{
    pthread_t *threads = ids;
    int found = 0;
    library_keep(library_kept() ? NULL : &found);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++)
        found += library_is_self(threads[i]);
    return (void *)(long)(found * 10 + (library_kept() == &found));
}

static void know_threads(void)
{
    static pthread_t threads[THREADS];
    void *result;
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, know, threads);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        printf("thread: %ld\n", (long)result);
    }
}

static int pipe_ends[2];

static void *tick(void *unused)
{
    for (int i = 0; i < TICKS; i++) {
        usleep(1000);
        if (write(pipe_ends[1], "t", 1) != 1)
            abort();
    }
    return unused;
}

static int ends[2];
static void *write_line(void *unused)
{
    usleep(2000);
    if (write(ends[1], "\n", 1) != 1)
        abort();
    return unused;
}

/* The thread that lets them end runs while the library waits. */
static void wait_for_processes(void)
{
    pthread_t writer;
    if (pipe(ends))
        abort();
    int (*const waits[])(int) = {library_child_until, library_named_child_until,
                                 library_command_until, library_stream_until};
    for (int i = 0; i < 4; i++) {
        pthread_create(&writer, NULL, write_line, NULL);
        printf("process %d: %d\n", i, waits[i](ends[0]));
        pthread_join(writer, NULL);
    }
}

static void *have_child(void *unused)
{
    printf("child: %d\n", library_child());
    wait_for_processes();
    fflush(stdout);
    return unused;
}

static void fork_in_library(void)
{
    pthread_t threads[2];
    char ticks[2 * TICKS];
    pthread_create(&threads[0], NULL, tick, NULL);
    pthread_create(&threads[1], NULL, have_child, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("ticks: %zd\n", read(pipe_ends[0], ticks, sizeof ticks));
}

static void *read_cleanly(void *unused)
{
    library_read_cleanly(pipe_ends[0]);
    return unused;
}

static void cancel_in_library(void)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, read_cleanly, NULL);
    usleep(5000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("canceled: %d, cleanups: %d\n", result == PTHREAD_CANCELED, library_cleanups());
}

int main(void)
{
    char bytes[4] = "";
    void *copy;
    if (pipe(pipe_ends))
        return 1;
    know_threads();
    fork_in_library();
    cancel_in_library();
    printf("readv: %zd\n", library_readv());
    library_set_hook(hook);
    copy = dlopen(getenv("COPY_OF_LIBRARY"), RTLD_NOW);
    printf("loaded: %d, hook: %zd %s\n", copy != NULL, library_hooked(-1, bytes, 3), bytes);
    return 0;
}
