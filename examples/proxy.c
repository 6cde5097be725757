/* A proxy: proxy LISTEN SERVER [IDLE_SECONDS]. Each connection has two threads, one per direction;
 * an end that has shut down its sending side still receives. Ctrl-C ends the proxy. */
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/scope.h>
#include <gossamer/sys.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct direction {
    int from, to;
    uint64_t *deadline_ns; /* of both directions: each byte that moves renews it */
};
static const char *server;
static uint64_t idle_max_ns;

static int copy_bytes(void *direction)
{
    const struct direction *way = direction;
    char bytes[8192];
    ssize_t n = 0, sent = 0, moved = 1;
    while (moved > 0 || (moved == -ETIMEDOUT && gs_clock_now() < *way->deadline_ns)) {
        bool sends = sent < n;
        moved = sends ? gs_send(way->to, bytes + sent, (size_t)(n - sent), 0, *way->deadline_ns)
                      : gs_recv(way->from, bytes, sizeof bytes, 0, *way->deadline_ns);
        if (moved <= 0)
            continue;
        *way->deadline_ns = gs_clock_now() + idle_max_ns;
        sent = sends ? sent + moved : 0;
        n = sends ? n : moved;
    }
    if (!moved)
        gs_sys_shutdown(way->to, SHUT_WR);
    return (int)moved; /* an error cancels the other direction */
}

static void *serve(void *client)
{
    struct gs_scope scope = {0};
    uint64_t deadline_ns = gs_clock_now() + idle_max_ns;
    int from = (int)(intptr_t)client, to = gs_dial(server, gs_clock_now() + 5 * GS_SECOND);
    struct direction up = {from, to, &deadline_ns}, down = {to, from, &deadline_ns};
    if (to < 0 || gs_scope_spawn(&scope, copy_bytes, &up, GS_NEVER) ||
        gs_scope_spawn(&scope, copy_bytes, &down, GS_NEVER))
        gs_scope_cancel(&scope);
    gs_scope_wait(&scope, GS_NEVER);
    if (to >= 0)
        gs_close(to);
    gs_close(from);
    return NULL;
}

static void *accept_all(void *listener)
{
    for (int fd; (fd = gs_accept(*(int *)listener, NULL, NULL, 0, GS_NEVER)) != -ECANCELED;)
        if (fd < 0)
            gs_thread_sleep(gs_clock_now() + 10 * GS_MILLISECOND); /* most errors pass */
        else if (gs_thread_spawn(NULL, serve, (void *)(intptr_t)fd, NULL))
            gs_close(fd);
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
    server = argc > 2 ? argv[2] : NULL;
    idle_max_ns = (argc > 3 ? strtoul(argv[3], NULL, 10) : 600) * GS_SECOND;
    int fd = server ? gs_listen(argv[1], NULL) : -EINVAL;
    return fd < 0 || puts("proxying") < 0 || fflush(stdout) || gs_threads_run(NULL, run, &fd, NULL);
}
