/* The least that a server on this kernel can do: the floor that the web server is compared with.
 *
 *     floor keep BODY TOTAL     epoll_wait, recv, send of a fixed answer; connections stay open
 *     floor close BODY TOTAL    accept with TCP_DEFER_ACCEPT, recv, send, close; nothing is registered
 *
 * Nothing is parsed: whatever comes is answered, with BODY bytes in an answer of TOTAL bytes. */
#include <arpa/inet.h>
#include <errno.h>
#include <gossamer/sys.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define EVENTS_MOST 512

static char *answer;
static size_t answer_n;

static void die(const char *what)
{
    fprintf(stderr, "floor: %s\n", what);
    exit(2);
}

/* An answer of the length that was asked for: a field of its own fills it up. */
static void form_answer(size_t body, size_t total)
{
    char head[160];
    int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nFill: ", body);
    if (n < 0 || (size_t)n + 4 + body > total)
        die("TOTAL has no room for a header before BODY bytes");
    answer = malloc(total);
    if (!answer)
        die("no memory");
    answer_n = total;
    memset(answer, 'x', total);
    memcpy(answer, head, (size_t)n);
    memcpy(answer + total - body - 4, "\r\n\r\n", 4);
}

static int listen_anywhere(bool defer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int on = 1;
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0 || gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) ||
        (defer && gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof on)) ||
        gs_sys_bind(fd, (struct sockaddr *)&address, length) || gs_sys_listen(fd, 4096) ||
        gs_sys_getsockname(fd, (struct sockaddr *)&address, &length))
        die("can't listen");
    printf("listening on http://127.0.0.1:%u (floor)\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void add(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (gs_sys_epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
        die("can't register");
}

/* False: the connection is over. */
static bool answer_one(int fd)
{
    static char buffer[65536];
    ssize_t n = gs_sys_recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0)
        return n == -EAGAIN;
    return gs_sys_send(fd, answer, answer_n, 0) == (ssize_t)answer_n;
}

static void accept_all(int listener, int epoll_fd, bool keep)
{
    for (;;) {
        int fd = gs_sys_accept(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (keep) {
            add(epoll_fd, fd);
        } else {
            answer_one(fd);
            gs_sys_close(fd);
        }
    }
}

int main(int argc, char **argv)
{
    static struct epoll_event events[EVENTS_MOST];
    if (argc != 4 || (strcmp(argv[1], "keep") && strcmp(argv[1], "close")))
        die("usage: floor keep|close BODY TOTAL");
    bool keep = !strcmp(argv[1], "keep");
    form_answer(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    int epoll_fd = gs_sys_epoll_create(0);
    int listener = listen_anywhere(!keep);
    add(epoll_fd, listener);
    for (;;) {
        int count = gs_sys_epoll_wait(epoll_fd, events, EVENTS_MOST, UINT64_MAX);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener)
                accept_all(listener, epoll_fd, keep);
            else if (!answer_one(events[i].data.fd))
                gs_sys_close(events[i].data.fd);
        }
    }
}
