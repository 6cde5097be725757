#define _GNU_SOURCE
#include "waiting.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int library_read(int fd)
{
    char byte;
    /* Also with a lock: NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection) */
    return read(fd, &byte, 1) == 1 ? byte : -1;
}

int library_recv(int fd)
{
    char byte;
    return recv(fd, &byte, 1, 0) == 1 ? byte : -1;
}

int library_poll(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, -1) == 1 ? library_read(fd) : -1;
}

int library_select(int fd)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, NULL, NULL, NULL) == 1 ? library_read(fd) : -1;
}

int library_epoll(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(0), n = -1;
    if (!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
        n = epoll_wait(epoll, &event, 1, -1);
    close(epoll);
    return n == 1 ? library_read(fd) : -1;
}

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;

int library_locked_read(int fd)
{
    pthread_mutex_lock(&normal);
    int byte = library_read(fd);
    pthread_mutex_unlock(&normal);
    return byte;
}

void library_sleep(void)
{
    const struct timespec time = {.tv_nsec = 1000000};
    nanosleep(&time, NULL);
}

void library_spin(const volatile int *flag)
{
    while (!*flag)
        sched_yield();
}

/* ---- Locks ---- */

static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int inside[3];

static int be_inside(int *count)
{
    int others = (*count)++;
    library_sleep();
    --*count;
    return others;
}

int library_recursive(void)
{
    int err = pthread_mutex_lock(&recursive);
    err += pthread_mutex_trylock(&recursive);
    int others = be_inside(&inside[0]);
    err += pthread_mutex_unlock(&recursive);
    err += pthread_mutex_unlock(&recursive);
    return err ? -err : others;
}

int library_checked(void)
{
    int err = pthread_mutex_lock(&checked);
    int again = pthread_mutex_lock(&checked), tried = pthread_mutex_trylock(&checked);
    int others = be_inside(&inside[1]);
    err += pthread_mutex_unlock(&checked);
    return err || again != EDEADLK || tried != EBUSY ? -1 : others;
}

int library_write_locked(void)
{
    pthread_rwlock_rdlock(&lock);
    library_sleep();
    pthread_rwlock_unlock(&lock);
    pthread_rwlock_wrlock(&lock);
    int others = be_inside(&inside[2]);
    pthread_rwlock_unlock(&lock);
    return others;
}

/* ---- Kernel threads ---- */

static void *sleep_first(void *argument)
{
    library_sleep();
    return argument;
}

long library_join(void)
{
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, sleep_first, (void *)77) || pthread_join(thread, &result))
        return -1;
    return (long)result;
}

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int made;

static void *make_one(void *argument)
{
    library_sleep();
    pthread_mutex_lock(&normal);
    made++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&normal);
    return argument;
}

int library_condition(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, make_one, NULL);
    pthread_mutex_lock(&normal);
    while (!made)
        pthread_cond_wait(&changed, &normal);
    made--;
    pthread_mutex_unlock(&normal);
    return pthread_join(thread, NULL);
}

int library_condition_late(void)
{
    pthread_cond_t never;
    pthread_condattr_t attributes;
    struct timespec time;
    int err = 0;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&never, &attributes);
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_nsec += 3000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_nsec -= 1000000000;
        time.tv_sec++;
    }
    pthread_mutex_lock(&recursive);
    while (!err)
        err = pthread_cond_timedwait(&never, &recursive, &time);
    pthread_mutex_unlock(&recursive);
    return err == ETIMEDOUT;
}

static void *post(void *semaphore)
{
    library_sleep();
    sem_post(semaphore);
    return NULL;
}

int library_semaphore(void)
{
    sem_t semaphore;
    pthread_t thread;
    sem_init(&semaphore, 0, 0);
    pthread_create(&thread, NULL, post, &semaphore);
    int err = sem_wait(&semaphore);
    pthread_join(thread, NULL);
    sem_destroy(&semaphore);
    return err;
}

/* ---- Values of threads ---- */

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int freed;

static void free_value(void *value)
{
    freed++;
    free(value);
}

static void make_key(void)
{
    pthread_key_create(&key, free_value);
}

int library_value(int value)
{
    pthread_once(&once, make_key);
    int *own = pthread_getspecific(key);
    if (!own) {
        own = malloc(sizeof *own);
        *own = value;
        pthread_setspecific(key, own);
    }
    library_sleep();
    own = pthread_getspecific(key);
    return *own;
}

int library_values_freed(void)
{
    return freed;
}

void *library_start(void *fd)
{
    return (void *)(long)library_read((int)(long)fd);
}

int library_call(int (*function)(int), int argument)
{
    pthread_mutex_lock(&recursive);
    int result = function(argument);
    pthread_mutex_unlock(&recursive);
    return result;
}

/* ---- What else a library does ---- */

static long sum(int (*function)(int), int count)
{
    long result = 0;
    for (int i = 0; i < count; i++)
        result += function(i);
    return result;
}

const struct library_operations library_operations = {sum};

int library_is_self(pthread_t thread)
{
    return pthread_equal(thread, pthread_self());
}

static pthread_key_t early;

__attribute__((constructor)) static void create_key(void)
{
    if (pthread_key_create(&early, NULL))
        abort();
}

void library_keep(void *value)
{
    pthread_setspecific(early, value);
}

void *library_kept(void)
{
    return pthread_getspecific(early);
}

static ssize_t (*reader)(int, void *, size_t) = read;

void library_set_hook(ssize_t (*hook)(int, void *, size_t))
{
    reader = hook;
}

ssize_t library_hooked(int fd, void *bytes, size_t n)
{
    return reader(fd, bytes, n);
}

ssize_t library_readv(void)
{
    return readv(-1, NULL, 0);
}

int library_child(void)
{
    int status = -1;
    pid_t child = fork();
    if (!child) {
        usleep(10000);
        _exit(7);
    }
    return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
}

/* Processes that end when there is something to read. */
static pid_t start_reader(int fd)
{
    char byte;
    pid_t child = fork();
    if (!child)
        _exit(read(fd, &byte, 1) == 1 ? byte : 1);
    return child;
}

int library_child_until(int fd)
{
    int status = -1;
    pid_t child = start_reader(fd);
    return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
}

int library_named_child_until(int fd)
{
    siginfo_t ended = {0};
    pid_t child = start_reader(fd);
    int result = waitid(P_PID, (id_t)child, &ended, WEXITED);
    return !result && ended.si_pid == child ? ended.si_status : -1;
}

int library_command_until(int fd)
{
    char command[64];
    snprintf(command, sizeof command, "read -r line <&%d; exit 6", fd);
    int status = system(command); /* NOLINT(cert-env33-c): it is what is tested */
    return WEXITSTATUS(status);
}

int library_stream_until(int fd)
{
    char command[64];
    snprintf(command, sizeof command, "read -r line <&%d; exit 5", fd);
    FILE *stream = popen(command, "r"); /* NOLINT(cert-env33-c): the same */
    int status = stream ? pclose(stream) : -1;
    return WEXITSTATUS(status);
}

static pthread_mutex_t cleaned = PTHREAD_MUTEX_INITIALIZER;
static int cleanups;

static void clean(void *unused)
{
    (void)unused;
    usleep(1000);
    cleanups++;
    pthread_mutex_unlock(&cleaned);
}

int library_read_cleanly(int fd)
{
    int byte;
    pthread_mutex_lock(&cleaned);
    pthread_cleanup_push(clean, NULL);
    byte = library_read(fd);
    pthread_cleanup_pop(1);
    return byte;
}

int library_cleanups(void)
{
    pthread_mutex_lock(&cleaned);
    int count = cleanups;
    pthread_mutex_unlock(&cleaned);
    return count;
}

void library_lock(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
}

void library_unlock(pthread_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
}

void library_await(pthread_cond_t *condition, pthread_mutex_t *mutex, const int *flag)
{
    pthread_mutex_lock(mutex);
    while (!*flag)
        pthread_cond_wait(condition, mutex);
    pthread_mutex_unlock(mutex);
}

void library_signal(pthread_cond_t *condition, pthread_mutex_t *mutex, int *flag)
{
    pthread_mutex_lock(mutex);
    *flag = 1;
    pthread_cond_signal(condition);
    pthread_mutex_unlock(mutex);
}
