/* A TLS connection of which a test has both ends. */
#ifndef GS_TESTS_TLS_STREAM_FIXTURE_H
#define GS_TESTS_TLS_STREAM_FIXTURE_H

#include "tests/thread/io/connection.h"
#include "tests/tls_stream/contexts.h"

#include <gossamer/tls.h>

#define PATIENCE_NS (30 * GS_SECOND)

static struct gs_tls *server, *client; /* over `ours` and `theirs` */

/* Run the test in the first thread, with one worker and with several. */
static inline void run_tls(gs_thread_fn *first)
{
    make_contexts();
    run_both(first);
    release_contexts();
}

static inline void *accept_tls(void *unused)
{
    MUST_EQ(gs_tls_accept(server_context, ours, after(PATIENCE_NS), &server, NULL), 0);
    return unused;
}

static inline int connect_as(const char *server_name, char *ret_text)
{
    uint64_t deadline_ns = after(PATIENCE_NS);
    return gs_tls_connect(client_context, theirs, server_name, deadline_ns, &client, ret_text);
}

/* Over the sockets that there are. */
static inline void start_tls(void)
{
    struct gs_thread *thread = spawn(accept_tls, NULL);
    MUST_EQ(connect_as("server.test", NULL), 0);
    join(thread);
}

/* Of a Unix socket: TCP would wait for acknowledgements. */
static inline void connect_with_small_buffers(void)
{
    const int size = 4096;
    int fds[2];
    MUST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    ours = fds[0];
    theirs = fds[1];
    MUST_EQ(setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    MUST_EQ(setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
}

static inline void connect_tls(void)
{
    connect_both();
    start_tls();
}

static inline void close_tls(void)
{
    gs_tls_close(server, after(PATIENCE_NS));
    gs_tls_close(client, after(PATIENCE_NS));
}

/* A thread: shut down the socket of the client, without the end of the stream. */
static inline void *cut_off(void *unused)
{
    gs_thread_sleep(after(2 * GS_MILLISECOND));
    MUST_EQ(shutdown(theirs, SHUT_RDWR), 0);
    return unused;
}

static inline void hear(struct gs_tls *tls, const char *text)
{
    char bytes[100];
    size_t n = 0, length = strlen(text);
    while (n < length) {
        ssize_t some = gs_tls_recv(tls, bytes + n, length - n, after(PATIENCE_NS));
        MUST(some > 0);
        n += (size_t)some;
    }
    MUST(!memcmp(bytes, text, length));
}

static inline void say(struct gs_tls *tls, const char *text)
{
    MUST_EQ(gs_tls_send_all(tls, text, strlen(text), after(PATIENCE_NS)), strlen(text));
}

#endif
