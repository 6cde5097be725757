/* The baseline of the web server: the minimum of system calls that a server needs on this kernel.
 *
 *     baseline keep BODY TOTAL     epoll_wait, recv, send; connections stay open
 *     baseline ring BODY TOTAL     the same by io_uring, without a system call for each
 *     baseline close BODY TOTAL    accept with TCP_DEFER_ACCEPT, recv, send, close; without epoll
 *
 * Requests are not parsed. The response to each receive is fixed, and has TOTAL bytes, with a body
 * of BODY bytes. */
#include "bench/baseline_ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gossamer/sys.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define EVENTS_MAX 512

static char *response;
static size_t response_length;

static void fail(const char *message)
{
    fprintf(stderr, "baseline: %s\n", message);
    exit(2);
}

/* Build the response; a header field pads it to `total` bytes. */
static void build_response(size_t body, size_t total)
{
    char header[160];
    int n =
        snprintf(header, sizeof header, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nFill: ", body);
    if (n < 0 || (size_t)n + 4 + body > total)
        fail("TOTAL is too small for a header and BODY bytes");
    response = malloc(total);
    if (!response)
        fail("out of memory");
    response_length = total;
    memset(response, 'x', total);
    memcpy(response, header, (size_t)n);
    memcpy(response + total - body - 4, "\r\n\r\n", 4);
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
        fail("cannot listen");
    printf("listening on http://127.0.0.1:%u (baseline)\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void add(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (gs_sys_epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
        fail("cannot register a descriptor");
}

/* Returns false if the connection must be closed. */
static bool respond(int fd)
{
    static char buffer[65536];
    ssize_t n = gs_sys_recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0)
        return n == -EAGAIN;
    return gs_sys_send(fd, response, response_length, 0) == (ssize_t)response_length;
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
            respond(fd);
            gs_sys_close(fd);
        }
    }
}

int main(int argc, char **argv)
{
    static struct epoll_event events[EVENTS_MAX];
    if (argc != 4 ||
        (strcmp(argv[1], "keep") && strcmp(argv[1], "ring") && strcmp(argv[1], "close")))
        fail("usage: baseline keep|ring|close BODY TOTAL");
    bool keep = strcmp(argv[1], "close");
    build_response(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    int listener = listen_anywhere(!keep);
    if (!strcmp(argv[1], "ring")) {
        respond_by_ring(listener, response, response_length);
        fail("io_uring failed");
    }
    int epoll_fd = gs_sys_epoll_create(0);
    add(epoll_fd, listener);
    for (;;) {
        int count = gs_sys_epoll_wait(epoll_fd, events, EVENTS_MAX, UINT64_MAX);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener)
                accept_all(listener, epoll_fd, keep);
            else if (!respond(events[i].data.fd))
                gs_sys_close(events[i].data.fd);
        }
    }
}
