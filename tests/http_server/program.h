/* A program that serves HTTP at a free port of this machine, for tests by other programs. */
#ifndef GS_TESTS_HTTP_SERVER_PROGRAM_H
#define GS_TESTS_HTTP_SERVER_PROGRAM_H

#include <gossamer/http_server.h>
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <gossamer/sys.h>
#include <gossamer/thread.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>

struct program {
    const struct gs_http_server *server;
    int listener;
};

static void *serve_program(void *argument)
{
    const struct program *program = argument;
    return (void *)(intptr_t)gs_http_serve(program->listener, program->server);
}

/* Tell the port, and serve until SIGTERM. Returns what has failed, or NULL. */
static inline void *serve_until_told(const struct gs_http_server *server)
{
    struct program program = {server, gs_listen("127.0.0.1:0", NULL)};
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    struct gs_thread *thread;
    void *result = NULL;
    if (program.listener < 0 ||
        gs_sys_getsockname(program.listener, (struct sockaddr *)&address, &length) ||
        gs_thread_spawn(NULL, serve_program, &program, &thread))
        return "no listener or thread";
    printf("listening on port %d\n", ntohs(address.sin_port));
    if (fflush(stdout) || gs_wait_signal(SIGTERM, GS_NEVER))
        return "no output or signal";
    gs_thread_cancel(thread);
    return gs_thread_join(thread, GS_NEVER, &result) || result ? "the server failed" : NULL;
}

#endif
