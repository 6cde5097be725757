/* Pipes, sockets, poll, select, epoll, eventfd, timerfd, timeouts, ends of connections. */
#include "tests/compat/pthread/program.h"

#include <arpa/inet.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/timerfd.h>

enum { CLIENTS = 20, ROUNDS = 50 };

/* ---- A server with a thread for each connection ---- */

static int listener;
static struct sockaddr_in address;

static void *serve(void *connection)
{
    int fd = (int)(long)connection;
    char bytes[512];
    ssize_t n;
    long total = 0;
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        total += n;
        if (send(fd, bytes, (size_t)n, MSG_NOSIGNAL) != n)
            break;
    }
    close(fd);
    return (void *)total;
}

static void *accept_all(void *unused)
{
    pthread_t threads[CLIENTS];
    long total = 0;
    for (int i = 0; i < CLIENTS; i++)
        threads[i] = start(serve, (void *)(long)accept(listener, NULL, NULL));
    for (int i = 0; i < CLIENTS; i++)
        total += finish(threads[i]);
    (void)unused;
    return (void *)total;
}

static void *ask(void *unused)
{
    char bytes[64] = "", answer[64];
    long answers = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    (void)unused;
    if (connect(fd, (struct sockaddr *)&address, sizeof address))
        return (void *)-1L;
    for (int i = 0; i < ROUNDS; i++) {
        memset(bytes, i, sizeof bytes);
        if (write(fd, bytes, sizeof bytes) != sizeof bytes)
            return (void *)-2L;
        if (recv(fd, answer, sizeof answer, MSG_WAITALL) != sizeof answer)
            return (void *)-3L;
        answers += !memcmp(bytes, answer, sizeof bytes);
    }
    shutdown(fd, SHUT_WR);
    answers += read(fd, answer, sizeof answer) * 1000;
    close(fd);
    return (void *)answers;
}

static void listen_at_any_port(void)
{
    socklen_t length = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    SHOW_ERROR(bind(listener, (struct sockaddr *)&address, sizeof address));
    SHOW_ERROR(listen(listener, 128));
    SHOW_ERROR(getsockname(listener, (struct sockaddr *)&address, &length));
}

static void test_server(void)
{
    pthread_t server, clients[CLIENTS];
    listen_at_any_port();
    server = start(accept_all, NULL);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = start(ask, NULL);
    for (int i = 0; i < CLIENTS; i++)
        SHOW(finish(clients[i]));
    SHOW(finish(server));
}

static void *accept_one(void *unused)
{
    int fd = accept(listener, NULL, NULL);
    (void)unused;
    return (void *)(long)(fd < 0 ? -errno : 1);
}

static void test_shutdown(void)
{
    int pair[2];
    char byte;
    pthread_t thread = start(accept_one, NULL);
    sleep_ms(20);
    SHOW_ERROR(shutdown(listener, SHUT_RDWR));
    SHOW(finish(thread));
    SHOW_ERROR(close(listener));
    SHOW_ERROR(
        connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address));
    SHOW_ERROR(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    const struct timeval timeout = {0, 20000};
    SHOW_ERROR(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout));
    SHOW_ERROR(read(pair[0], &byte, 1));
    SHOW_ERROR(recv(pair[0], &byte, 1, MSG_DONTWAIT));
    SHOW_ERROR(fcntl(pair[0], F_GETFL) & O_NONBLOCK);
    SHOW_ERROR(fcntl(pair[0], F_SETFL, O_NONBLOCK));
    SHOW_ERROR(read(pair[0], &byte, 1));
    close(pair[1]);
    signal(SIGPIPE, SIG_IGN);
    SHOW_ERROR(write(pair[0], &byte, 1));
    SHOW_ERROR(read(-1, &byte, 1));
    SHOW_ERROR(write(1000, &byte, 1));
}

static void test_datagrams(void)
{
    int pair[2];
    char bytes[16];
    SHOW_ERROR(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    SHOW_ERROR(send(pair[0], "abc", 3, 0));
    SHOW_ERROR(send(pair[0], "defg", 4, 0));
    SHOW_ERROR(recv(pair[1], bytes, sizeof bytes, MSG_WAITALL));
    SHOW_ERROR(recv(pair[1], bytes, sizeof bytes, MSG_WAITALL));
    close(pair[0]);
    close(pair[1]);
}

/* ---- Pipes ---- */

static int ends[2];
enum { PIPE_BYTES = 1 << 20 };

static void *fill(void *unused)
{
    static char bytes[PIPE_BYTES];
    (void)unused;
    memset(bytes, 1, sizeof bytes);
    ssize_t n = write(ends[1], bytes, sizeof bytes);
    close(ends[1]);
    return (void *)(long)n;
}

static void test_pipe(void)
{
    char bytes[3000];
    ssize_t n;
    long total = 0;
    SHOW_ERROR(pipe(ends));
    pthread_t thread = start(fill, NULL);
    sleep_ms(5);
    while ((n = read(ends[0], bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n; i++)
            total += bytes[i];
    SHOW(total);
    SHOW(finish(thread));
    close(ends[0]);
}

/* A pipe that is full most of the time, while its reader takes from it. */
enum { BLOCK = 4096, BLOCKS = 10000 };

static void *write_blocks(void *unused)
{
    char bytes[BLOCK];
    long total = 0;
    (void)unused;
    for (int i = 0; i < BLOCKS; i++) {
        memset(bytes, i % 251, sizeof bytes);
        total += write(ends[1], bytes, sizeof bytes);
    }
    close(ends[1]);
    return (void *)total;
}

static void test_blocks(void)
{
    static unsigned char bytes[1 << 16];
    ssize_t n;
    long total = 0, wrong = 0;
    SHOW_ERROR(pipe(ends));
    pthread_t thread = start(write_blocks, NULL);
    while ((n = read(ends[0], bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n; i++, total++)
            wrong += bytes[i] != total / BLOCK % 251;
    SHOW(total);
    SHOW(wrong);
    SHOW(finish(thread));
    close(ends[0]);
}

/* As many pieces as few programs use: a byte each. */
enum { PIECES = 100 };

static void make_pieces(char bytes[PIECES], struct iovec ret_pieces[PIECES])
{
    for (int i = 0; i < PIECES; i++)
        ret_pieces[i] = (struct iovec){bytes + i, 1};
}

static void *write_pieces(void *unused)
{
    char bytes[PIECES];
    struct iovec pieces[PIECES];
    (void)unused;
    make_pieces(bytes, pieces);
    memset(bytes, 3, sizeof bytes);
    sleep_ms(10);
    return (void *)writev(ends[1], pieces, PIECES);
}

static void test_pieces(void)
{
    char bytes[PIECES] = "";
    struct iovec pieces[PIECES];
    make_pieces(bytes, pieces);
    SHOW_ERROR(pipe(ends));
    pthread_t thread = start(write_pieces, NULL);
    SHOW_ERROR(readv(ends[0], pieces, PIECES));
    SHOW(bytes[0] + bytes[PIECES - 1]);
    SHOW(finish(thread));
    close(ends[0]);
    close(ends[1]);
}

/* ---- Readiness ---- */

static void *write_later(void *fd)
{
    sleep_ms(10);
    return (void *)(long)write((int)(long)fd, "12345678", 8);
}

static void test_readiness(void)
{
    uint64_t value;
    int event = eventfd(0, 0), set = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct pollfd polls[] = {
        {.fd = event, .events = POLLIN}, {.fd = timer, .events = POLLIN}, {.fd = -1}};
    struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = 77}, got = {0};
    SHOW_ERROR(poll(polls, 3, 20));
    SHOW_ERROR(poll(polls, 3, 0));
    pthread_t thread = start(write_later, (void *)(long)event);
    SHOW_ERROR(poll(polls, 3, -1));
    SHOW(polls[0].revents);
    SHOW(finish(thread));
    SHOW_ERROR(read(event, &value, sizeof value));
    SHOW_ERROR(epoll_ctl(set, EPOLL_CTL_ADD, event, &wanted));
    SHOW_ERROR(epoll_wait(set, &got, 1, 20));
    thread = start(write_later, (void *)(long)event);
    SHOW_ERROR(epoll_wait(set, &got, 1, -1));
    SHOW(got.data.u64);
    SHOW(finish(thread));
    SHOW_ERROR(read(event, &value, sizeof value));
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(event, &readable);
    struct timeval timeout = {0, 20000};
    SHOW_ERROR(select(event + 1, &readable, NULL, NULL, &timeout));
    SHOW(FD_ISSET(event, &readable) != 0);
    FD_SET(event, &readable);
    thread = start(write_later, (void *)(long)event);
    SHOW_ERROR(select(event + 1, &readable, NULL, NULL, NULL));
    SHOW(FD_ISSET(event, &readable) != 0);
    SHOW(finish(thread));
    const struct itimerspec soon = {.it_value.tv_nsec = 10000000};
    SHOW_ERROR(timerfd_settime(timer, 0, &soon, NULL));
    SHOW_ERROR(read(timer, &value, sizeof value));
    SHOW(value);
    struct pollfd bad = {.fd = 900, .events = POLLIN};
    SHOW_ERROR(poll(&bad, 1, -1));
    SHOW(bad.revents);
    SHOW_ERROR(epoll_wait(900, &got, 1, -1));
}

static void *select_one(void *fd)
{
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET((int)(long)fd, &readable);
    return (void *)(long)select(FD_SETSIZE, &readable, NULL, NULL, NULL);
}

static void test_small_stack(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    SHOW_ERROR(pipe(ends));
    pthread_attr_init(&attributes);
    SHOW(pthread_attr_setstacksize(&attributes, 1 << 14));
    bool is_started = !pthread_create(&thread, &attributes, select_one, (void *)(long)ends[0]);
    SHOW(is_started);
    sleep_ms(5);
    SHOW_ERROR(write(ends[1], "1", 1));
    if (is_started)
        SHOW(finish(thread));
    pthread_attr_destroy(&attributes);
    close(ends[0]);
    close(ends[1]);
}

/* ---- Files and locks ---- */

static sem_t has_tried;

static void *lock_file(void *path)
{
    int fd = open(path, O_RDWR);
    SHOW_ERROR(flock(fd, LOCK_EX | LOCK_NB));
    sem_post(&has_tried);
    int err = flock(fd, LOCK_EX);
    close(fd);
    return (void *)(long)err;
}

static void *open_fifo(void *path)
{
    int fd = open(path, O_WRONLY);
    ssize_t n = write(fd, "fifo", 4);
    close(fd);
    return (void *)(long)n;
}

static void test_files(void)
{
    char directory[] = "/tmp/gossamer-run-XXXXXX", path[64], fifo[64], bytes[16] = "";
    SHOW(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/file", directory);
    snprintf(fifo, sizeof fifo, "%s/fifo", directory);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    SHOW_ERROR(write(fd, "contents", 8));
    SHOW_ERROR(lseek(fd, 0, SEEK_SET));
    struct iovec vector[2] = {{bytes, 3}, {bytes + 8, 5}};
    SHOW_ERROR(readv(fd, vector, 2));
    printf("%s %s\n", bytes, bytes + 8);
    SHOW_ERROR(read(fd, bytes, 8));
    SHOW_ERROR(flock(fd, LOCK_EX));
    sem_init(&has_tried, 0, 0);
    pthread_t thread = start(lock_file, path);
    sem_wait(&has_tried);
    sleep_ms(20);
    SHOW_ERROR(flock(fd, LOCK_UN));
    SHOW(finish(thread));
    SHOW_ERROR(mkfifo(fifo, 0600));
    thread = start(open_fifo, fifo);
    fd = open(fifo, O_RDONLY);
    SHOW_ERROR(read(fd, bytes, 8));
    SHOW(finish(thread));
    SHOW_ERROR(read(fd, bytes, 8));
    unlink(path);
    unlink(fifo);
    rmdir(directory);
}

/* ---- Arguments that are not there ---- */

static void *pass_bad_arguments(void *unused)
{
    void *volatile nowhere = (void *)8;
    struct msghdr message = {.msg_iov = nowhere, .msg_iovlen = 1};
    int file = open("/dev/zero", O_RDWR), pair[2], sockets[2];
    if (pipe(pair) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        abort();
    SHOW_ERROR(readv(file, nowhere, 1));
    SHOW_ERROR(writev(file, nowhere, 1));
    SHOW_ERROR(writev(pair[1], nowhere, 1));
    SHOW_ERROR(writev(sockets[0], nowhere, 1));
    SHOW_ERROR(sendmsg(sockets[0], nowhere, 0));
    SHOW_ERROR(sendmsg(sockets[0], &message, 0));
    SHOW_ERROR(recvmsg(sockets[1], nowhere, 0));
    for (int i = 0; i < 2; i++) {
        close(pair[i]);
        close(sockets[i]);
    }
    close(file);
    return unused;
}

int main(void)
{
    test_server();
    test_shutdown();
    test_datagrams();
    test_pipe();
    test_blocks();
    test_pieces();
    test_readiness();
    test_small_stack();
    test_files();
    pthread_join(start(pass_bad_arguments, NULL), NULL);
    return 0;
}
