/* The echo server of echo.c with a thread per client. A client that does not read is not read from:
 * its thread waits in gs_send_all. */
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <gossamer/thread.h>

#include <arpa/inet.h>
#include <stdio.h>

#define IDLE_MAX (60 * GS_SECOND)

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument;
    char bytes[1024];
    ssize_t n;
    do {
        n = gs_recv(fd, bytes, sizeof bytes, 0, gs_clock_now() + IDLE_MAX);
        if (n > 0)
            n = gs_send_all(fd, bytes, (size_t)n, gs_clock_now() + IDLE_MAX);
    } while (n > 0);
    gs_close(fd);
    return NULL;
}

static int listen_anywhere(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fd = gs_listen("127.0.0.1:0", NULL); /* a free port */
    if (fd < 0 || gs_sys_getsockname(fd, (struct sockaddr *)&address, &length))
        return -1;
    printf("echoing on port %d\n", ntohs(address.sin_port));
    return fflush(stdout) ? -1 : fd;
}

static void *accept_all(void *unused)
{
    const struct gs_thread_attributes attributes = {.name = "client", .migrates = true};
    int listener = listen_anywhere(), fd;
    (void)unused;
    while ((fd = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER)) >= 0)
        if (gs_thread_spawn(&attributes, serve, (void *)(intptr_t)fd, NULL))
            gs_close(fd);
    return NULL;
}

int main(void)
{
    return gs_threads_run(NULL, accept_all, NULL, NULL) != 0;
}
