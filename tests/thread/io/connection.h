/* A TCP connection of which a test has both ends. */
#ifndef GS_TESTS_THREAD_CONNECTION_H
#define GS_TESTS_THREAD_CONNECTION_H

#include "tests/thread/fixture.h"

static int ours, theirs; /* the ends; theirs is blocking */

static inline int listen_anywhere(struct sockaddr_in *ret_address)
{
    socklen_t length = sizeof *ret_address;
    *ret_address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = gs_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    MUST(fd >= 0);
    MUST_EQ(gs_sys_bind(fd, (struct sockaddr *)ret_address, length), 0);
    MUST_EQ(gs_sys_listen(fd, 8), 0);
    MUST_EQ(gs_sys_getsockname(fd, (struct sockaddr *)ret_address, &length), 0);
    return fd;
}

static inline void connect_both(void)
{
    struct sockaddr_in address;
    int listener = listen_anywhere(&address);
    theirs = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(theirs >= 0);
    MUST_EQ(connect(theirs, (struct sockaddr *)&address, sizeof address), 0);
    ours = gs_accept(listener, NULL, NULL, SOCK_CLOEXEC, GS_NEVER);
    MUST(ours >= 0);
    gs_close(listener);
}

static inline void close_both(void)
{
    gs_close(ours);
    gs_sys_close(theirs);
}

/* A thread. */
static inline void *reset_later(void *unused)
{
    const struct linger reset = {.l_onoff = 1};
    gs_thread_sleep(after(2 * GS_MILLISECOND));
    MUST_EQ(setsockopt(theirs, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    gs_sys_close(theirs);
    return unused;
}

#endif
