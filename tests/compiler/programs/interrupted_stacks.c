/* A thread waits in a function with variable arguments, which is not converted: a signal interrupts
 * the wait, has the thread jump, or it is canceled. */
#include "program.h"

#include <sys/un.h>

enum way { POLL, PPOLL, SELECT, PSELECT, EPOLL, EPOLL_MASK, READ, RECEIVE, ACCEPT, CONNECT, WAYS };
static const char *const names[] = {"poll",        "ppoll", "select",   "pselect", "epoll_wait",
                                    "epoll_pwait", "read",  "recvfrom", "accept",  "connect"};

static int pipes[2][2], pair[2], set, listener;
static struct sockaddr_un address;
static sigjmp_buf place;
static sem_t ready;
static atomic_int has_returned;
static enum way how;

static void on_signal(int number)
{
    (void)number;
}

static void on_jump(int number)
{
    siglongjmp(place, number);
}

/* The queue of the listener is full. */
static int connect_once(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    int result = connect(fd, (struct sockaddr *)&address, sizeof address), err = errno;
    close(fd);
    errno = err;
    return result;
}

static fd_set both(void)
{
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(pipes[0][0], &reads);
    FD_SET(pipes[1][0], &reads);
    return reads;
}

static long wait_by(int count, ...)
{
    char byte;
    sigset_t none;
    struct epoll_event event;
    fd_set reads = both();
    struct pollfd fds[] = {{.fd = pipes[0][0], .events = POLLIN},
                           {.fd = -1, .events = POLLIN},
                           {.fd = pipes[1][0], .events = POLLIN}};
    sigemptyset(&none);
    switch (how) {
    case POLL:
        return poll(fds, 3, -1);
    case PPOLL:
        return ppoll(fds, 3, NULL, &none);
    case SELECT:
        return select(count, &reads, NULL, NULL, NULL);
    case PSELECT:
        return pselect(count, &reads, NULL, NULL, NULL, &none);
    case EPOLL:
        return epoll_wait(set, &event, 1, -1);
    case EPOLL_MASK:
        return epoll_pwait(set, &event, 1, -1, &none);
    case READ:
        return read(pipes[0][0], &byte, 1);
    case RECEIVE:
        return recvfrom(pair[0], &byte, 1, 0, NULL, NULL);
    case ACCEPT:
        return accept(listener, NULL, NULL);
    default:
        return connect_once();
    }
}

static void *be_interrupted(void *unused)
{
    long result = wait_by(FD_SETSIZE);
    printf("%s: %ld %d\n", names[how], result, result < 0 && errno == EINTR);
    has_returned = 1;
    return unused;
}

static void *be_canceled(void *unused)
{
    sem_post(&ready);
    wait_by(FD_SETSIZE);
    puts("returned");
    return unused;
}

static void *jump(void *unused)
{
    if (!sigsetjmp(place, 1)) {
        sem_post(&ready);
        wait_by(FD_SETSIZE);
        puts("returned");
    }
    return unused;
}

static void interrupt(void)
{
    const struct timespec soon = {.tv_nsec = 500000};
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t thread;
    has_returned = 0;
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, be_interrupted, NULL);
    while (!has_returned) {
        pthread_kill(thread, SIGUSR1);
        nanosleep(&soon, NULL);
    }
    pthread_join(thread, NULL);
}

/* The thread waits already, or is about to. */
static void cancel(int waits_already)
{
    const struct timespec soon = {.tv_nsec = 500000};
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, be_canceled, NULL);
    sem_wait(&ready);
    if (waits_already)
        nanosleep(&soon, NULL);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("canceled %d\n", result == PTHREAD_CANCELED);
}

static void have_it_jump(void)
{
    const struct timespec soon = {.tv_nsec = 500000};
    struct sigaction action = {.sa_handler = on_jump, .sa_flags = SA_RESTART};
    pthread_t thread;
    void *result;
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, jump, &place);
    sem_wait(&ready);
    nanosleep(&soon, NULL);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, &result);
    printf("jumped %d\n", result == &place);
}

static void listen_fully(void)
{
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "interrupted %d", (int)getpid());
    int full = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(full, (struct sockaddr *)&address, sizeof address) || listen(full, 0) ||
        connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address))
        abort();
    listener = socket(AF_INET, SOCK_STREAM, 0);
    listen(listener, 4);
}

int main(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    pipe(pipes[0]);
    pipe(pipes[1]);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, pipes[0][0], &event);
    listen_fully();
    sem_init(&ready, 0, 0);
    for (how = 0; how < WAYS; how++) {
        interrupt();
        cancel(0);
        cancel(1);
        have_it_jump();
    }
    return 0;
}
