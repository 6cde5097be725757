/* A Gossamer user-level thread per connection. */
#include "bench/toys/toy.h"

#include <errno.h>
#include <fcntl.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <stdint.h>

static ssize_t receive(int fd, void *bytes, size_t n)
{
    return gs_recv(fd, bytes, n, 0, GS_NEVER);
}

static ssize_t respond(int fd, const void *bytes, size_t n)
{
    return gs_send(fd, bytes, n, 0, GS_NEVER);
}

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument;
    TOY_SERVE(receive, respond, fd);
    gs_close(fd);
    return NULL;
}

static void *accept_all(void *listener)
{
    int fd;
    do {
        fd = gs_accept(*(int *)listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
        if (fd >= 0 && gs_thread_spawn(NULL, serve, (void *)(intptr_t)fd, NULL))
            gs_close(fd);
    } while (fd != -ECANCELED);
    return NULL;
}

int main(int argc, char **argv)
{
    int listener = toy_listen(argc > 1 ? argv[1] : "127.0.0.1");
    const struct gs_threads_options options = {.workers = 1};
    gs_sys_fcntl(listener, F_SETFL, O_NONBLOCK);
    return gs_threads_run(&options, accept_all, &listener, NULL) ? 2 : 0;
}
