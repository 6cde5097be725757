/* A proxy for TCP: proxy ADDRESS PORT. Each connection has two threads, one for each direction;
 * either end may shut its side down and still be answered. Ctrl-C ends the proxy. */
#include <gossamer/io.h>
#include <gossamer/sys.h>

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define SILENCE_MOST (600 * GS_SECOND)
struct way {
    int from, to;
    uint64_t *heard_ns; /* when something last came, from either end */
};
static struct sockaddr_in server = {.sin_family = AF_INET};

static void *pass_on(void *argument)
{
    const struct way *way = argument;
    char bytes[8192];
    ssize_t n;
    do {
        n = gs_recv(way->from, bytes, sizeof bytes, 0, *way->heard_ns + SILENCE_MOST);
        if (n > 0) {
            *way->heard_ns = gs_clock_now();
            n = gs_send_all(way->to, bytes, (size_t)n, *way->heard_ns + SILENCE_MOST);
        }
    } while (n > 0 || (n == -ETIMEDOUT && gs_clock_now() < *way->heard_ns + SILENCE_MOST));
    gs_sys_shutdown(way->to, n ? SHUT_RDWR : SHUT_WR);
    return n ? (void *)(intptr_t)gs_sys_shutdown(way->from, SHUT_RDWR) : NULL;
}

static void *serve(void *client)
{
    uint64_t heard_ns = gs_clock_now();
    int to = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct way there = {(int)(intptr_t)client, to, &heard_ns}, back = {to, there.from, &heard_ns};
    struct gs_thread *other;
    int err = gs_connect(to, (struct sockaddr *)&server, sizeof server, heard_ns + 5 * GS_SECOND);
    if (!err && !(err = gs_thread_spawn(NULL, pass_on, &back, &other))) {
        pass_on(&there);
        gs_thread_set_cancelable(false);
        err = gs_thread_join(other, GS_NEVER, NULL);
    }
    gs_close(to);
    gs_close(there.from);
    return (void *)(intptr_t)err;
}

static void *accept_all(void *listener)
{
    for (int fd; (fd = gs_accept(*(int *)listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER)) >= 0;)
        if (fd >= 800 || gs_thread_spawn(NULL, serve, (void *)(intptr_t)fd, NULL))
            gs_close(fd); /* full */
    return NULL;
}

static void *run(void *listener)
{
    if (!gs_thread_spawn(NULL, accept_all, listener, NULL) && !gs_wait_signal(SIGINT, GS_NEVER))
        gs_threads_cancel_all();
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (argc != 3 || inet_pton(AF_INET, argv[1], &server.sin_addr) != 1 ||
        gs_sys_bind(fd, (struct sockaddr *)&at, length) || gs_sys_listen(fd, 128) ||
        gs_sys_getsockname(fd, (struct sockaddr *)&at, &length))
        return 1;
    server.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10));
    printf("proxying on port %d\n", ntohs(at.sin_port));
    return fflush(stdout) || gs_threads_run(NULL, run, &fd, NULL);
}
