/* The echo server of echo_threads.c, made fit for production: the number of clients is limited,
 * errors of accept are survived, and SIGTERM ends the server once the clients have left, or after
 * DRAIN_MAX. */
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/sync.h>
#include <gossamer/sys.h>
#include <gossamer/thread.h>

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#define CLIENTS_MAX 100
#define IDLE_MAX (60 * GS_SECOND)
#define DRAIN_MAX (2 * GS_SECOND)
static struct gs_semaphore slots = {.count = CLIENTS_MAX};

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument;
    char bytes[1024];
    ssize_t n;
    while ((n = gs_recv(fd, bytes, sizeof bytes, 0, gs_clock_now() + IDLE_MAX)) > 0)
        if (gs_send_all(fd, bytes, (size_t)n, gs_clock_now() + IDLE_MAX) < 0)
            break;
    gs_close(fd);
    gs_semaphore_post(&slots);
    return NULL;
}

/* Until it is canceled. */
static void *accept_all(void *listener)
{
    int fd = 0;
    while (fd != -ECANCELED && !gs_semaphore_wait(&slots, GS_NEVER)) {
        fd = gs_accept(*(int *)listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
        if (fd >= 0 && !gs_thread_spawn(NULL, serve, (void *)(intptr_t)fd, NULL))
            continue;
        if (fd >= 0)
            gs_close(fd);
        gs_semaphore_post(&slots);
        gs_thread_sleep(gs_clock_now() + 10 * GS_MILLISECOND); /* no descriptor or memory is free */
    }
    gs_close(*(int *)listener);
    return NULL;
}

static void *run(void *listener)
{
    struct gs_thread *acceptor;
    if (gs_thread_spawn(NULL, accept_all, listener, &acceptor))
        return NULL;
    int err = gs_wait_signal(SIGTERM, GS_NEVER);
    gs_thread_cancel(acceptor);
    if (err || gs_thread_join(acceptor, GS_NEVER, NULL))
        return NULL;
    /* All slots are free when the last client has left. */
    uint64_t end_ns = gs_clock_now() + DRAIN_MAX;
    for (int i = 0; i < CLIENTS_MAX && !err; i++)
        err = gs_semaphore_wait(&slots, end_ns);
    if (err)
        gs_threads_cancel_all();
    return NULL;
}

int main(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fd = gs_listen("127.0.0.1:0", NULL); /* a free port */
    if (fd < 0 || gs_sys_getsockname(fd, (struct sockaddr *)&address, &length))
        return 1;
    printf("echoing on port %d\n", ntohs(address.sin_port));
    return fflush(stdout) || gs_threads_run(NULL, run, &fd, NULL);
}
