/* Fixture of the tests of gs_recv_ahead: a stream of which every byte is known. */
#ifndef GS_TESTS_THREAD_RECEIVING_AHEAD_H
#define GS_TESTS_THREAD_RECEIVING_AHEAD_H

#include "tests/thread/connection.h"

#include <sys/ioctl.h>

/* What was received: every byte of a stream is known by its position. */
static size_t received, ends;

static inline char byte_at(size_t position)
{
    return (char)(position * 7 + position / 256);
}

static inline ssize_t check(void *data, const void *bytes, size_t n)
{
    (void)data;
    for (size_t i = 0; i < n; i++)
        MUST_EQ(((const char *)bytes)[i], byte_at(received + i));
    received += n;
    ends += !n;
    return (ssize_t)n;
}

static size_t said;

static inline void say(size_t n)
{
    char bytes[4096];
    MUST(n <= sizeof bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at(said + i);
    MUST_EQ(gs_sys_send(theirs, bytes, n, 0), n);
    said += n;
}

static inline void *say_later(void *n)
{
    gs_thread_sleep(after(2 * GS_MILLISECOND));
    say((uintptr_t)n);
    return NULL;
}

static inline void connect_ahead(void)
{
    connect_both();
    received = ends = said = 0;
    MUST_EQ(gs_recv_ahead(ours), 0);
}

/* Receive what arrives after the thread waits: then the ring goes on receiving. */
static inline void receive_awaited(size_t n)
{
    struct gs_thread *thread = spawn(say_later, (void *)(uintptr_t)n);
    size_t end = received + n;
    while (received < end)
        MUST(gs_recv_with(ours, check, NULL, GS_NEVER) > 0);
    join(thread);
}

/* Say something, and wait until the ring has received it, though no thread waits. */
static inline void have_received(size_t n)
{
    int in_socket = 0, unsent = 0;
    say(n);
    do {
        gs_thread_sleep(after(GS_MILLISECOND));
        MUST_EQ(ioctl(theirs, TIOCOUTQ, &unsent), 0);
        MUST_EQ(ioctl(ours, FIONREAD, &in_socket), 0);
    } while (unsent || in_socket);
}

#endif
