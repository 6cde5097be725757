/* A base with a connected pair of sockets, and a callback that says what happens to one of them. */
#ifndef GS_TESTS_LIBEVENT_PAIR_H
#define GS_TESTS_LIBEVENT_PAIR_H

#include "tests/libevent/transcript.h"
#include "tests/test.h"

static struct event_base *base;
static int pair[2];

static inline void open_all(void)
{
    base = event_base_new();
    CHECK(base);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
}

static inline void close_all(void)
{
    close(pair[0]);
    close(pair[1]);
    event_base_free(base);
}

static inline void on_event(evutil_socket_t fd, short events, void *name)
{
    say("%s fd %d events %s\n", (const char *)name, name_of_fd(fd, pair), names_of(events));
}

#endif
