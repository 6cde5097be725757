/* A descriptor changes: whether its calls block, for how long, and what its number means. */
#include "program.h"

#include <sys/ioctl.h>

static void *write_later(void *argument)
{
    usleep(2000);
    return (void *)write((int)(long)argument, "x", 1);
}

/* A call that waits until another thread has written. */
static void wait_once(int from, int to)
{
    pthread_t thread;
    char byte;
    pthread_create(&thread, NULL, write_later, (void *)(long)to);
    ssize_t n = read(from, &byte, 1);
    pthread_join(thread, NULL);
    printf("waited: %zd\n", n);
}

static void read_nothing(const char *text, int fd)
{
    char byte;
    errno = 0;
    ssize_t n = read(fd, &byte, 1);
    printf("%s: %zd %s\n", text, n, n < 0 ? strerror(errno) : "");
}

static void change_flags(int from, int to)
{
    int other = dup(from), on = 1, off = 0;
    wait_once(from, to);
    fcntl(from, F_SETFL, O_NONBLOCK);
    read_nothing("non-blocking", from);
    fcntl(from, F_SETFL, 0);
    wait_once(from, to);
    fcntl(other, F_SETFL, O_NONBLOCK);
    read_nothing("non-blocking by its duplicate", from);
    ioctl(other, FIONBIO, &off);
    wait_once(from, to);
    ioctl(from, FIONBIO, &on);
    read_nothing("non-blocking by ioctl", from);
    ioctl(from, FIONBIO, &off);
    close(other);
}

static void limit_time(int from, int to)
{
    struct timeval limit = {.tv_usec = 3000}, none = {0};
    wait_once(from, to);
    setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    read_nothing("with a limit", from);
    setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    wait_once(from, to);
}

/* The C library closes the descriptor, and its number soon means another file. */
static void reuse(void)
{
    int sockets[2], pipes[2], more[2];
    char path[] = "/tmp/gossamer-XXXXXX", byte;
    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    wait_once(sockets[0], sockets[1]);
    fclose(fdopen(sockets[0], "r"));
    int file = mkstemp(path);
    unlink(path);
    ssize_t n = write(file, "y", 1);
    lseek(file, 0, SEEK_SET);
    printf("a file with the number of a socket: %d %zd %zd\n", file == sockets[0], n,
           read(file, &byte, 1));
    fclose(fdopen(file, "r"));
    pipe(pipes);
    wait_once(pipes[0], pipes[1]);
    fclose(fdopen(pipes[0], "r"));
    socketpair(AF_UNIX, SOCK_STREAM, 0, more);
    wait_once(more[0], more[1]);
    printf("again: %d %d\n", pipes[0] == sockets[0], more[0] == pipes[0]);
    close(sockets[1]);
    close(pipes[1]);
    close(more[0]);
    close(more[1]);
}

static void pass(int from, int to)
{
    int pipes[2];
    char bytes[CMSG_SPACE(sizeof(int))] = {0}, byte = 'z';
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = bytes, .msg_controllen = sizeof bytes};
    pipe(pipes);
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), &pipes[0], sizeof(int));
    sendmsg(to, &message, 0);
    close(pipes[0]);
    int received = -1;
    if (recvmsg(from, &message, 0) < 0 || !(control = CMSG_FIRSTHDR(&message)))
        abort();
    memcpy(&received, CMSG_DATA(control), sizeof(int));
    wait_once(received, pipes[1]);
    close(received);
    close(pipes[1]);
}

static void *sleep_long(void *argument)
{
    usleep(20000);
    return argument;
}

static void join_in_time(void)
{
    pthread_t thread;
    struct timespec soon, late;
    void *result = NULL;
    clock_gettime(CLOCK_REALTIME, &soon);
    late = soon;
    late.tv_sec += 100;
    pthread_create(&thread, NULL, sleep_long, "slept");
    printf("too early: %s\n", strerror(pthread_timedjoin_np(thread, &result, &soon)));
    printf("in time: %s", strerror(pthread_timedjoin_np(thread, &result, &late)));
    printf(" %s\n", (char *)result);
}

/* A listener whose queue is full: the last connection waits, for as long as the socket says. */
static void *connect_in_time(void *address)
{
    const struct timeval soon = {0, 20000};
    socklen_t length = sizeof(struct sockaddr_in);
    int last = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(last, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    errno = 0;
    int result = connect(last, address, length);
    printf("connect: %d %s\n", result, strerror(errno));
    close(last);
    return address;
}

static void limit_connect(void)
{
    enum { CLIENTS = 3 };
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    pthread_t thread;
    int listener = socket(AF_INET, SOCK_STREAM, 0), clients[CLIENTS];
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 0) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        abort();
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (!connect(clients[i], (struct sockaddr *)&address, length))
            abort();
    }
    usleep(1000);
    connect_in_time(&address);
    pthread_create(&thread, NULL, connect_in_time, &address);
    pthread_join(thread, NULL);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    close(listener);
}

int main(void)
{
    int pair[2], pipes[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pipe(pipes);
    change_flags(pair[0], pair[1]);
    change_flags(pipes[0], pipes[1]);
    limit_time(pair[0], pair[1]);
    pass(pair[0], pair[1]);
    reuse();
    join_in_time();
    limit_connect();
    return 0;
}
