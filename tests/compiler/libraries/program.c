/* Threads that call a library that waits: the others run meanwhile, and are not taken for one. */
#define _GNU_SOURCE
#include "waiting.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS 8

static int sockets[THREADS][2];
static volatile int flag;

static void fail(const char *what)
{
    printf("%s failed\n", what);
    exit(EXIT_FAILURE);
}

/* Each thread waits for a byte that is written when all wait. */
static void *read_one(void *argument)
{
    static int (*const ways[])(int) = {library_read,       library_recv,  library_poll,
                                       library_select,     library_epoll, library_locked_read,
                                       library_locked_read};
    int i = (int)(long)argument;
    return (void *)(long)(i < 7 ? ways[i](sockets[i][0]) : library_read(sockets[i][0]));
}

static void *set_flag(void *unused)
{
    usleep(1000);
    flag = 1;
    return unused;
}

static void *spin(void *unused)
{
    library_spin(&flag);
    return unused;
}

static void *be_recursive(void *unused)
{
    (void)unused;
    return (void *)(long)library_recursive();
}

static void *be_checked(void *unused)
{
    (void)unused;
    return (void *)(long)library_checked();
}

static void *lock_write(void *unused)
{
    (void)unused;
    return (void *)(long)library_write_locked();
}

static void *use_threads(void *unused)
{
    (void)unused;
    return (void *)(library_join() + library_condition() + library_condition_late() +
                    library_semaphore());
}

static void *keep_value(void *argument)
{
    int value = (int)(long)argument;
    return (void *)(long)(library_value(value) == value && library_value(-1) == value);
}

static int wait_in_call(int argument)
{
    usleep(500);
    return argument + 1;
}

static void *be_called(void *argument)
{
    return (void *)(long)library_call(wait_in_call, (int)(long)argument);
}

static void run(const char *name, void *(*start)(void *), int count)
{
    pthread_t threads[THREADS];
    void *result;
    long sum = 0;
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, start, (void *)i))
            fail("pthread_create");
    if (start == read_one) {
        usleep(5000);
        for (int i = THREADS; i--;)
            if (write(sockets[i][1], "abcdefgh" + i, 1) != 1)
                fail("write");
    }
    for (int i = 0; i < count; i++) {
        if (pthread_join(threads[i], &result))
            fail("pthread_join");
        sum += (long)result;
    }
    printf("%s: %ld\n", name, sum);
}

/* A library that is loaded later. */
static void *load(void *path)
{
    void *library = dlopen(path, RTLD_NOW);
    int (*reader)(int) = library ? (int (*)(int))dlsym(library, "library_poll") : NULL;
    if (!reader)
        fail("dlopen");
    return (void *)(long)reader(sockets[0][0]);
}

static void *write_later(void *unused)
{
    usleep(2000);
    if (write(sockets[0][1], "z", 1) != 1)
        fail("write");
    return unused;
}

int main(void)
{
    pthread_t loader, writer;
    void *result;
    for (int i = 0; i < THREADS; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]))
            fail("socketpair");
    run("read", read_one, THREADS);
    pthread_create(&writer, NULL, set_flag, NULL);
    run("spin", spin, 2);
    pthread_join(writer, NULL);
    run("recursive", be_recursive, THREADS);
    run("checked", be_checked, THREADS);
    run("write locked", lock_write, THREADS);
    run("kernel threads", use_threads, THREADS);
    run("values", keep_value, THREADS);
    printf("values freed: %d, named %d\n", library_values_freed(), *program_invocation_name != 0);
    run("callbacks", be_called, THREADS);
    printf("the first thread: %ld %d\n", library_join(), library_value(5));
    pthread_create(&loader, NULL, library_start, (void *)(long)sockets[0][0]);
    pthread_create(&writer, NULL, write_later, NULL);
    pthread_join(loader, &result);
    pthread_join(writer, NULL);
    printf("started: %c\n", (int)(long)result);
    pthread_create(&loader, NULL, load, getenv("COPY_OF_LIBRARY"));
    pthread_create(&writer, NULL, write_later, NULL);
    pthread_join(loader, &result);
    pthread_join(writer, NULL);
    printf("loaded: %c\n", (int)(long)result);
    return 0;
}
