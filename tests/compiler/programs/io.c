/* Input and output through pipes and sockets that block. */
#include "program.h"

#include <netdb.h>

enum { CLIENTS = 20, LARGE = 300000 };

static int listener;
static struct sockaddr_in address;

static ssize_t fill(int fd, char *bytes, size_t n)
{
    size_t got = 0;
    while (got < n) {
        ssize_t part = read(fd, bytes + got, n - got);
        if (part <= 0)
            break;
        got += (size_t)part;
    }
    return (ssize_t)got;
}

static void *serve(void *argument)
{
    int fd = (int)(long)argument;
    char bytes[512];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
        if (send(fd, bytes, (size_t)n, 0) != n)
            break;
    close(fd);
    return NULL;
}

static void *accept_all(void *unused)
{
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        int fd = accept(listener, (struct sockaddr *)&peer, &length);
        pthread_create(&threads[i], NULL, serve, (void *)(long)fd);
    }
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    return unused;
}

static void *talk(void *argument)
{
    long id = (long)argument, sum = 0;
    char bytes[100], answer[100];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address))
        return (void *)-1L;
    for (int i = 0; i < 10; i++) {
        memset(bytes, (int)(id * 3 + i), sizeof bytes);
        if (send(fd, bytes, sizeof bytes, 0) != sizeof bytes ||
            recv(fd, answer, sizeof answer, MSG_WAITALL) != sizeof answer ||
            memcmp(bytes, answer, sizeof bytes))
            return (void *)-2L;
        sum += answer[99];
    }
    close(fd);
    return (void *)sum;
}

static void *write_large(void *argument)
{
    int fd = *(int *)argument;
    char *bytes = malloc(LARGE);
    for (int i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 7);
    struct iovec parts[3] = {{bytes, 100}, {bytes + 100, 150000}, {bytes + 150100, LARGE - 150100}};
    ssize_t n = writev(fd, parts, 3);
    ssize_t more = write(fd, bytes, LARGE);
    free(bytes);
    return (void *)(n + more);
}

static void pass_large(int read_fd, int write_fd)
{
    pthread_t writer;
    void *written;
    char *bytes = malloc((size_t)2 * LARGE);
    unsigned sum = 0;
    pthread_create(&writer, NULL, write_large, &write_fd);
    usleep(1000);
    ssize_t n = fill(read_fd, bytes, (size_t)2 * LARGE);
    pthread_join(writer, &written);
    for (ssize_t i = 0; i < n; i++)
        sum = sum * 31 + (unsigned char)bytes[i];
    printf("large: %zd %ld %u\n", n, (long)written, sum);
    free(bytes);
}

static void *write_later(void *argument)
{
    usleep(2000);
    return (void *)write(*(int *)argument, "late", 4);
}

static void wait_for_input(int *pipes, int *others)
{
    pthread_t writer;
    char bytes[8] = {0};
    struct pollfd fds[] = {{pipes[0], POLLIN, 0}, {others[0], POLLIN, 0}};
    struct timeval wait = {0, 3000};
    fd_set set;
    printf("poll: %d\n", poll(fds, 2, 2));
    pthread_create(&writer, NULL, write_later, &others[1]);
    printf("poll: %d", poll(fds, 2, -1));
    printf(" %d %d\n", fds[0].revents, fds[1].revents);
    printf("read: %zd %s\n", read(others[0], bytes, 4), bytes);
    pthread_join(writer, NULL);
    FD_ZERO(&set);
    FD_SET(pipes[0], &set);
    printf("select: %d\n", select(pipes[0] + 1, &set, NULL, NULL, &wait));
    pthread_create(&writer, NULL, write_later, &pipes[1]);
    FD_SET(pipes[0], &set);
    printf("select: %d", select(pipes[0] + 1, &set, NULL, NULL, NULL));
    printf(" %d\n", FD_ISSET(pipes[0], &set) != 0);
    printf("read: %zd %s\n", read(pipes[0], bytes, 4), bytes);
    pthread_join(writer, NULL);
}

static void fail_as_usual(int *pair)
{
    char byte;
    struct timeval limit = {0, 2000};
    printf("closed: %zd", read(99, &byte, 1));
    printf(" %d\n", errno == EBADF);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    printf("limit: %zd", recv(pair[0], &byte, 1, 0));
    printf(" %d\n", errno == EAGAIN);
    fcntl(pair[1], F_SETFL, O_NONBLOCK);
    printf("non-blocking: %zd", read(pair[1], &byte, 1));
    printf(" %d\n", errno == EAGAIN);
    close(pair[1]);
    printf("end: %zd\n", read(pair[0], &byte, 1));
}

int main(void)
{
    pthread_t acceptor, clients[CLIENTS];
    socklen_t length = sizeof address;
    struct addrinfo *found = NULL, hints = {.ai_flags = AI_NUMERICHOST};
    int pipes[2], others[2], pair[2];
    printf("name: %d\n", getaddrinfo("127.0.0.1", "80", &hints, &found));
    freeaddrinfo(found);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, CLIENTS) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        return 1;
    pthread_create(&acceptor, NULL, accept_all, NULL);
    for (long i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i], NULL, talk, (void *)i);
    for (int i = 0; i < CLIENTS; i++) {
        void *sum;
        pthread_join(clients[i], &sum);
        printf("client %d: %ld\n", i, (long)sum);
    }
    pthread_join(acceptor, NULL);
    if (pipe(pipes) || pipe(others) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return 2;
    pass_large(pipes[0], pipes[1]);
    pass_large(pair[0], pair[1]);
    wait_for_input(pipes, others);
    fail_as_usual(pair);
    return 0;
}
