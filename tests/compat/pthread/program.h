/* What the programs of this folder share. Each is run natively and by `gossamer run`, and must
 * print the same and end in the same way; so it prints nothing that depends on time or on ids. */
#ifndef GS_TESTS_COMPAT_PROGRAM_H
#define GS_TESTS_COMPAT_PROGRAM_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Print the expression and its value: the comparison of both runs is the test. */
#define SHOW(expression_)                                                                          \
    printf("%s:%d %s = %ld\n", __func__, __LINE__, #expression_, (long)(expression_))
#define SHOW_ERROR(expression_)                                                                    \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long result_ = (long)(expression_);                                                        \
        printf("%s:%d %s = %ld, %s\n", __func__, __LINE__, #expression_, result_,                  \
               result_ < 0 ? strerrorname_np(errno) : "no error");                                 \
    } while (0)

static inline void sleep_ms(long ms)
{
    struct timespec rest = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&rest, &rest) && errno == EINTR)
        ;
}

static inline struct timespec after_ms(clockid_t clock, long ms)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += ms / 1000;
    time.tv_nsec += ms % 1000 * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

static inline pthread_t start(void *(*fn)(void *), void *argument)
{
    pthread_t thread;
    int err = pthread_create(&thread, NULL, fn, argument);
    if (err) {
        printf("pthread_create: %s\n", strerrorname_np(err));
        exit(99);
    }
    return thread;
}

static inline long finish(pthread_t thread)
{
    void *result = NULL;
    int err = pthread_join(thread, &result);
    return err ? -err : (long)result;
}

#endif
