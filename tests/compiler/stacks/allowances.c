/* How much stack functions use of which `gossamer cc` has an allowance: each is called three times
 * by a function on a stack that was painted below. Compiled by `gossamer cc`; writes a line for
 * each, and ends with 1 if one needs more than its allowance. */
#define _GNU_SOURCE
#include "compiler/driver/allowances.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 300000
#define PAINT 0xa5

static bool has_failed;

#if defined(__x86_64__)
#define STACK_POINTER(ret) __asm__ volatile("mov %%rsp, %0" : "=r"(ret))
#else
#define STACK_POINTER(ret) __asm__ volatile("mov %0, sp" : "=r"(ret))
#endif

/* Of what is below this frame. */
static inline __attribute__((always_inline)) void paint(void)
{
    volatile unsigned char *top;
    STACK_POINTER(top);
    for (long i = 1; i < DEPTH; i++)
        top[-i] = PAINT;
}

static inline __attribute__((always_inline)) unsigned long used(void)
{
    volatile unsigned char *top;
    STACK_POINTER(top);
    long i = DEPTH - 1;
    while (i > 0 && top[-i] == PAINT)
        i--;
    return (unsigned long)i;
}

static void compare(const char *name, unsigned long bytes)
{
    unsigned long allowance = cc_allowance(name);
    has_failed |= bytes > allowance;
    printf("%s %lu of %lu\n", name, bytes, allowance);
}

/* As a statement, it has no other stack than the call has. */
#define MEASURE(name, call)                                                                        \
    do {                                                                                           \
        unsigned long most = 0;                                                                    \
        for (unsigned round = 0; round < 3; round++) {                                             \
            paint();                                                                               \
            call;                                                                                  \
            unsigned long bytes = used();                                                          \
            most = bytes > most ? bytes : most;                                                    \
        }                                                                                          \
        compare(name, most);                                                                       \
    } while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t go, done;
static int pipes[2], sockets[2];

/* Wakes the other thread, a moment after it was asked to. */
static void *wake(void *argument)
{
    for (;;) {
        sem_wait(&go);
        usleep(1000);
        pthread_mutex_lock(&lock);
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&lock);
        if (write(pipes[1], "x", 1) != 1 || send(sockets[1], "x", 1, 0) != 1)
            abort();
        sem_post(&done);
    }
    return argument;
}

static void *nothing(void *argument)
{
    return argument;
}

/* Takes what a round has sent, if it was not read. */
static void take(bool has_read, bool has_received)
{
    char byte;
    sem_wait(&done);
    if ((!has_read && read(pipes[0], &byte, 1) != 1) ||
        (!has_received && recv(sockets[0], &byte, 1, 0) != 1))
        abort();
}

static void measure_waits(void)
{
    char byte;
    struct iovec part = {&byte, 1};
    struct pollfd two[2] = {{.fd = pipes[0], .events = POLLIN},
                            {.fd = sockets[0], .events = POLLIN}};
    MEASURE("gs_cc_read", (sem_post(&go), read(pipes[0], &byte, 1), take(true, false)));
    MEASURE("gs_cc_readv", (sem_post(&go), readv(pipes[0], &part, 1), take(true, false)));
    MEASURE("gs_cc_recv", (sem_post(&go), recv(sockets[0], &byte, 1, 0), take(false, true)));
    MEASURE("gs_cc_poll", (sem_post(&go), poll(two, 2, 10000), take(false, false)));
    MEASURE("gs_cc_poll", poll(two, 1, 1));
    fd_set set;
    struct timeval soon = {0, 1000};
    FD_ZERO(&set);
    MEASURE("gs_cc_select", select(0, &set, NULL, NULL, &soon));
    MEASURE("gs_cc_usleep", usleep(1000));
    MEASURE("gs_cc_nanosleep", nanosleep(&(struct timespec){0, 1000}, NULL));
    MEASURE("gs_cc_sched_yield", sched_yield());
}

static void measure_locks(void)
{
    struct timespec past = {1, 0};
    pthread_t thread;
    MEASURE("gs_cc_pthread_mutex_lock", pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock));
    MEASURE("gs_cc_pthread_cond_wait", pthread_mutex_lock(&lock); sem_post(&go);
            pthread_cond_wait(&condition, &lock); pthread_mutex_unlock(&lock); take(false, false));
    MEASURE("gs_cc_pthread_cond_timedwait", pthread_mutex_lock(&lock);
            pthread_cond_timedwait(&condition, &lock, &past); pthread_mutex_unlock(&lock));
    MEASURE("gs_cc_pthread_rwlock_wrlock", pthread_rwlock_wrlock(&rwlock);
            pthread_rwlock_unlock(&rwlock));
    MEASURE("gs_cc_sem_wait", sem_post(&go); sem_wait(&done); sem_post(&done); take(false, false));
    MEASURE("gs_cc_pthread_create", pthread_create(&thread, NULL, nothing, NULL);
            pthread_detach(thread));
    MEASURE("gs_cc_pthread_join", pthread_create(&thread, NULL, nothing, NULL);
            pthread_join(thread, NULL));
}

static void measure_connections(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client, one = 1;
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 5) ||
        getsockname(listener, (struct sockaddr *)&address, &size))
        abort();
    MEASURE("gs_cc_setsockopt", setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    MEASURE("gs_cc_accept", client = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(client, (struct sockaddr *)&address, size)) abort();
            close(accept(listener, NULL, NULL)); close(client));
    MEASURE("gs_cc_open", close(open("/dev/null", O_RDONLY)));
    close(listener);
}

static void measure_library(void)
{
    char text[500];
    void *volatile block;
    void *volatile found;
    char *rest;
    volatile size_t size;
    volatile in_addr_t address;
    time_t now = 0;
    struct tm moment;
    MEASURE("gmtime_r", gmtime_r(&now, &moment));
    MEASURE("malloc", block = malloc(100); free(block); block = malloc(300000); free(block));
    MEASURE("strerror_r", (void)!strerror_r(5, text, sizeof text));
    MEASURE("strerror", (void)strerror(5));
    MEASURE("strerror", (void)strerror(99999));
    MEASURE("strerror_r", (void)!strerror_r(99999, text, sizeof text));
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    MEASURE("memmem", found = memmem(text, sizeof text, text + 100, sizeof text - 100));
    MEASURE("strstr", found = strstr(text, text + 100));
    MEASURE("strspn", size = strspn(text, "abcdefghijklmnopqrstuvwxyz"));
    MEASURE("strcspn", size = strcspn(text, "bcdefghijklmnopqrstuvwxyz"));
    MEASURE("strpbrk", found = strpbrk(text, "bcdefghijklmnopqrstuvwxyz"));
    MEASURE("strtok_r", found = strtok_r(text, "bcdefghijklmnopqrstuvwxyz", &rest));
    rest = text;
    MEASURE("strsep", found = strsep(&rest, "bcdefghijklmnopqrstuvwxyz"));
    MEASURE("inet_addr", address = inet_addr("1.2.3.4"));
    MEASURE("inet_ntop", inet_ntop(AF_INET, "abcd", text, sizeof text));
    MEASURE("inet_pton", inet_pton(AF_INET6, "::1", text));
    MEASURE("localtime_r", localtime_r(&now, &moment));
    MEASURE("strftime", (void)strftime(text, sizeof text, "%c %x %X %Z %Ec %EY %s", &moment));
    MEASURE("getenv", getenv("PATH"));
    MEASURE("strtol", (void)strtol("123", NULL, 10));
    MEASURE("strtod", strtod("1.25e300", NULL));
    MEASURE("sscanf", sscanf("12 ab 1.5", "%*d %s %*f", text));
    MEASURE("snprintf", (void)!snprintf(text, 9, "%.16000f %Lf", 1.5, 1e4000L));
    MEASURE("snprintf", (void)!snprintf(text, 9, "%2$s %1$d %3$*4$d", 1, "x", 7, 300));
    MEASURE("snprintf", (void)!snprintf(text, 9, "%'I.11000Lf", 1e4000L));
    MEASURE("gs_cc_fprintf", fprintf(stderr, "%.16000f\n", 1.5));
    MEASURE("gs_cc_puts", puts(""));
}

/* It is variadic, so it runs on a stack, as what it calls does. */
static int measure(int n, ...)
{
    measure_waits();
    measure_locks();
    measure_connections();
    measure_library();
    return n;
}

static void *run(void *argument)
{
    measure(0);
    return argument;
}

int main(void)
{
    pthread_t waker, thread;
    setlocale(LC_ALL, "");
    if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        return 1;
    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    pthread_create(&waker, NULL, wake, NULL);
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
    return has_failed;
}
