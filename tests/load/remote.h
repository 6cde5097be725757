/* A server in a process of its own, so that the test's process is single-threaded when it forks. */
#ifndef GS_TESTS_LOAD_REMOTE_H
#define GS_TESTS_LOAD_REMOTE_H

#include "tests/load/server.h"

struct remote {
    struct server server; /* only its address is set */
    pid_t pid;
    int to_server, from_server;
};

/* Serve until `in` is at end of file, then write the number of requests to `out`. */
static inline void remote_serve(serve_fn *serve, int in, int out)
{
    struct server server;
    char byte;
    server_start(&server, serve);
    if (write(out, &server.port, sizeof server.port) != sizeof server.port)
        _exit(1);
    (void)!read(in, &byte, 1);
    server_stop(&server);
    _exit(write(out, &server.requests, sizeof server.requests) != sizeof server.requests);
}

static inline void remote_start(struct remote *remote, serve_fn *serve)
{
    int in[2], out[2];
    CHECK_EQ(pipe(in) | pipe(out), 0);
    fflush(NULL);
    *remote = (struct remote){.to_server = in[1], .from_server = out[0], .server.family = AF_INET};
    remote->pid = fork();
    CHECK(remote->pid >= 0);
    if (remote->pid == 0) {
        close(in[1]);
        remote_serve(serve, in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    CHECK_EQ(read(out[0], &remote->server.port, sizeof remote->server.port),
             sizeof remote->server.port);
}

/* Stop the server. Returns the number of requests that it received. */
static inline size_t remote_stop(struct remote *remote)
{
    size_t requests = 0;
    int status;
    close(remote->to_server);
    CHECK_EQ(read(remote->from_server, &requests, sizeof requests), sizeof requests);
    close(remote->from_server);
    CHECK_EQ(waitpid(remote->pid, &status, 0), remote->pid);
    CHECK_EQ(status, 0);
    return requests;
}

#endif
