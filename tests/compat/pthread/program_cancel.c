/* Cancellation at every call that POSIX names as a cancellation point and that can wait. */
#include "tests/compat/pthread/program.h"

#include <aio.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <threads.h>

static int pipe_fds[2], pair[2], listener, epoll_fd, queue, lock_fd;
static mqd_t messages;
static pid_t child;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_t sleeper;
static sigset_t usr2;
static char fifo[64];
static atomic_int is_near, cleaned;
static const struct timespec hour = {3600, 0};

static void count_cleaning(void *unused)
{
    (void)unused;
    cleaned++;
}

/* A function for each call that waits: CALL(name, expression). */
#define CALL(name_, ...)                                                                           \
    static void *in_##name_(void *unused)                                                          \
    {                                                                                              \
        char bytes[16] = "";                                                                       \
        int value = 0;                                                                             \
        (void)unused, (void)bytes, (void)value;                                                    \
        pthread_cleanup_push(count_cleaning, NULL);                                                \
        is_near = 1;                                                                               \
        __VA_ARGS__;                                                                               \
        pthread_cleanup_pop(0);                                                                    \
        return (void *)1;                                                                          \
    }

static struct iovec vector(void *bytes)
{
    return (struct iovec){bytes, 1};
}

CALL(read, (void)!read(pipe_fds[0], bytes, 1))
CALL(readv, struct iovec iov = vector(bytes); (void)!readv(pipe_fds[0], &iov, 1))
CALL(recv, (void)!recv(pair[0], bytes, 1, 0))
CALL(recvfrom, recvfrom(pair[0], bytes, 1, 0, NULL, NULL))
CALL(recvmsg, struct iovec iov = vector(bytes);
     struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
     (void)!recvmsg(pair[0], &message, 0))
CALL(accept, accept(listener, NULL, NULL))
CALL(accept4, accept4(listener, NULL, NULL, 0))
CALL(pause, pause())
CALL(sleep, sleep(3600))
CALL(usleep, while (true) usleep(900000))
CALL(nanosleep, nanosleep(&hour, NULL))
CALL(clock_nanosleep, clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL))
CALL(thrd_sleep, thrd_sleep(&hour, NULL))
CALL(poll, struct pollfd polls = {.fd = pipe_fds[0], .events = POLLIN}; poll(&polls, 1, -1))
CALL(poll_nothing, poll(NULL, 0, -1))
CALL(ppoll, struct pollfd polls = {.fd = pipe_fds[0], .events = POLLIN};
     ppoll(&polls, 1, &hour, NULL))
CALL(select, fd_set set; FD_ZERO(&set); FD_SET(pipe_fds[0], &set);
     select(pipe_fds[0] + 1, &set, NULL, NULL, NULL))
CALL(pselect, pselect(0, NULL, NULL, NULL, NULL, NULL))
CALL(epoll_wait, struct epoll_event event; epoll_wait(epoll_fd, &event, 1, -1))
CALL(epoll_pwait, struct epoll_event event; epoll_pwait(epoll_fd, &event, 1, -1, NULL))
CALL(sem_wait, sem_wait(&semaphore))
CALL(sem_timedwait, struct timespec at = after_ms(CLOCK_REALTIME, 3600000);
     sem_timedwait(&semaphore, &at))
CALL(sem_clockwait, struct timespec at = after_ms(CLOCK_MONOTONIC, 3600000);
     sem_clockwait(&semaphore, CLOCK_MONOTONIC, &at))
CALL(join, pthread_join(sleeper, NULL))
CALL(sigwait, sigwait(&usr2, &value))
CALL(sigwaitinfo, sigwaitinfo(&usr2, NULL))
CALL(sigtimedwait, sigtimedwait(&usr2, NULL, &hour))
CALL(sigsuspend, sigset_t none; sigemptyset(&none); sigsuspend(&none))
CALL(waitpid, waitpid(child, &value, 0))
CALL(wait, wait(&value))
CALL(waitid, siginfo_t info; waitid(P_PID, (id_t)child, &info, WEXITED))
CALL(
    msgrcv,
    struct {
        long type;
        char text[8];
    } message;
    msgrcv(queue, &message, sizeof message.text, 0, 0))
CALL(mq_receive, char text[64]; mq_receive(messages, text, sizeof text, NULL))
CALL(mq_timedreceive, char text[64]; struct timespec at = after_ms(CLOCK_REALTIME, 3600000);
     mq_timedreceive(messages, text, sizeof text, NULL, &at))
CALL(open, (void)!open(fifo, O_RDONLY))
CALL(lockf, (void)!lockf(lock_fd, F_LOCK, 0))
CALL(setlkw, struct flock lock = {.l_type = F_WRLCK}; fcntl(lock_fd, F_SETLKW, &lock))
CALL(fread, FILE *file = fdopen(dup(pipe_fds[0]), "r"); (void)!fread(bytes, 1, 1, file))
CALL(aio_suspend, static char byte; static struct aiocb block;
     block = (struct aiocb){.aio_fildes = pipe_fds[0], .aio_buf = &byte, .aio_nbytes = 1};
     aio_read(&block); const struct aiocb *list[] = {&block}; aio_suspend(list, 1, NULL))

/* It sends a part, and waits for room. */
static char large[1 << 20];
CALL(send, int ends[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
     send(ends[0], large, sizeof large, 0))
CALL(write, int ends[2]; (void)!pipe(ends); (void)!write(ends[1], large, sizeof large))

static void unlock(void *unused)
{
    (void)unused;
    SHOW(pthread_mutex_unlock(&mutex));
}

static void *in_cond_wait(void *timed)
{
    const struct timespec at = after_ms(CLOCK_REALTIME, 3600000);
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, NULL);
    is_near = 1;
    while (true)
        timed ? pthread_cond_timedwait(&condition, &mutex, &at)
              : pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *sleep_long(void *unused)
{
    sleep(3600);
    return unused;
}

/* While it waits. */
static void cancel(const char *name, void *(*fn)(void *), void *argument)
{
    void *result = NULL;
    is_near = cleaned = 0;
    pthread_t thread = start(fn, argument);
    while (!is_near)
        sched_yield();
    sleep_ms(5);
    int err = pthread_cancel(thread), joined = pthread_join(thread, &result);
    printf("%s: cancel %d, join %d, canceled %d, cleaned %d\n", name, err, joined,
           result == PTHREAD_CANCELED, cleaned);
}

static void cancel_before(const char *name, void *(*fn)(void *))
{
    pthread_t thread = start(fn, NULL);
    int err = pthread_cancel(thread);
    printf("%s: cancel %d, canceled %d\n", name, err, finish(thread) == (long)PTHREAD_CANCELED);
}

#define CANCEL(name_) cancel(#name_, in_##name_, NULL), cancel_before(#name_, in_##name_)

static void prepare(void)
{
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 64};
    char name[64];
    (void)!pipe(pipe_fds);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    listen(listener, 8);
    epoll_fd = epoll_create1(0);
    queue = msgget(IPC_PRIVATE, 0600);
    snprintf(name, sizeof name, "/gossamer-%d", getpid());
    messages = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes);
    mq_unlink(name);
    sem_init(&semaphore, 0, 0);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &usr2, NULL);
    snprintf(fifo, sizeof fifo, "/tmp/gossamer-%d", getpid());
    mkfifo(fifo, 0600);
    char path[] = "/tmp/gossamer-XXXXXX";
    lock_fd = mkstemp(path);
    int ready[2];
    (void)!pipe(ready);
    child = fork();
    if (!child) {
        lock_fd = open(path, O_RDWR);
        (void)!lockf(lock_fd, F_LOCK, 0);
        (void)!write(ready[1], "", 1);
        pause();
        _exit(0);
    }
    char byte;
    (void)!read(ready[0], &byte, 1);
    unlink(path);
    sleeper = start(sleep_long, NULL);
}

static void cancel_input(void)
{
    CANCEL(read);
    CANCEL(readv);
    CANCEL(recv);
    CANCEL(recvfrom);
    CANCEL(recvmsg);
    CANCEL(accept);
    CANCEL(accept4);
    CANCEL(poll);
    CANCEL(poll_nothing);
    CANCEL(ppoll);
    CANCEL(select);
    CANCEL(pselect);
    CANCEL(epoll_wait);
    CANCEL(epoll_pwait);
    CANCEL(open);
    CANCEL(lockf);
    CANCEL(setlkw);
    CANCEL(fread);
    CANCEL(msgrcv);
    CANCEL(mq_receive);
    CANCEL(mq_timedreceive);
    CANCEL(aio_suspend);
    CANCEL(send);
    CANCEL(write);
}

static void cancel_waits(void)
{
    CANCEL(pause);
    CANCEL(sleep);
    CANCEL(usleep);
    CANCEL(nanosleep);
    CANCEL(clock_nanosleep);
    CANCEL(thrd_sleep);
    CANCEL(sem_wait);
    CANCEL(sem_timedwait);
    CANCEL(sem_clockwait);
    CANCEL(sigwait);
    CANCEL(sigwaitinfo);
    CANCEL(sigtimedwait);
    CANCEL(sigsuspend);
    CANCEL(waitpid);
    CANCEL(wait);
    CANCEL(waitid);
    CANCEL(join);
    cancel("cond_wait", in_cond_wait, NULL);
    cancel("cond_timedwait", in_cond_wait, &condition);
}

/* ---- Asynchronous, disabled, deferred ---- */

static void *compute(void *unused)
{
    int old = -1;
    SHOW(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old));
    SHOW(old);
    pthread_cleanup_push(count_cleaning, NULL);
    is_near = 1;
    for (volatile long i = 0;; i++)
        ;
    pthread_cleanup_pop(0);
    return unused;
}

static atomic_int may_go_on;

static void *postpone(void *unused)
{
    int old = -1;
    SHOW(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
    SHOW(old);
    is_near = 1;
    while (!may_go_on)
        usleep(1000);
    SHOW(sem_trywait(&semaphore));
    pthread_testcancel();
    printf("still there\n");
    SHOW(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old));
    SHOW(old);
    pthread_testcancel();
    printf("not reached\n");
    return unused;
}

static void *never_waits(void *unused)
{
    (void)unused;
    is_near = 1;
    while (!may_go_on)
        ;
    return (void *)17;
}

static void *cancel_itself(void *unused)
{
    pthread_cleanup_push(count_cleaning, NULL);
    SHOW(pthread_cancel(pthread_self()));
    cleaned += 10;
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return unused;
}

static void cancel_later(void *(*fn)(void *))
{
    void *result = NULL;
    is_near = may_go_on = cleaned = 0;
    pthread_t thread = start(fn, NULL);
    while (!is_near)
        sched_yield();
    SHOW(pthread_cancel(thread));
    may_go_on = 1;
    SHOW(pthread_join(thread, &result));
    printf("result %ld, cleaned %d\n", (long)result, cleaned);
}

static void test_kinds(void)
{
    void *result = NULL;
    int old;
    cancel("compute", compute, NULL);
    cancel_later(postpone);
    cancel_later(never_waits);
    cleaned = 0;
    pthread_t thread = start(cancel_itself, NULL);
    pthread_join(thread, &result);
    printf("itself: %ld, cleaned %d\n", (long)result, cleaned);
    SHOW(pthread_setcanceltype(17, &old));
    SHOW(pthread_setcancelstate(17, &old));
    SHOW(pthread_cancel(sleeper));
    SHOW(finish(sleeper));
}

int main(void)
{
    prepare();
    cancel_input();
    cancel_waits();
    test_kinds();
    msgctl(queue, IPC_RMID, NULL);
    unlink(fifo);
    kill(child, SIGKILL);
    SHOW(waitpid(child, NULL, 0) == child);
    return 0;
}
