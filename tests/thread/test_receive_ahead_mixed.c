/* gs_recv_ahead: many sockets, and all calls in turn. */
#include "tests/thread/receiving_ahead.h"

#include <pthread.h>
#include <stdatomic.h>

enum { STREAM = 200000 };

static void *say_stream(void *unused)
{
    unsigned random = 7;
    while (said < STREAM) {
        random = random * 1103515245 + 12345;
        size_t n = random >> 16 & 1 ? (random >> 17) % 3000 + 1 : (random >> 17) % 50 + 1;
        say(n < STREAM - said ? n : STREAM - said);
        if (random >> 28 == 0)
            usleep(100);
    }
    MUST_EQ(shutdown(theirs, SHUT_WR), 0);
    return unused;
}

static bool receive_somehow(unsigned random)
{
    char bytes[1000];
    struct gs_poll poll = {.fd = ours, .events = GS_READ | GS_WRITE};
    uint64_t deadline_ns = random & 1 ? after((uint64_t)(random >> 1 & 7) * 50000) : GS_NEVER;
    ssize_t n = -ETIMEDOUT;
    switch (random >> 8 & 15) {
    case 0:
        n = gs_recv(ours, bytes, random >> 12 & 511, 0, deadline_ns);
        if (n > 0)
            check(NULL, bytes, (size_t)n);
        return n || !(random >> 12 & 511);
    case 1:
        MUST(gs_poll(&poll, 1, 0) > 0);
        return true;
    case 2:
        MUST(gs_recv_ahead_end(ours) >= 0);
        MUST_EQ(gs_recv_ahead(ours), 0);
        return true;
    case 3:
        gs_thread_yield();
        return true;
    default:
        n = gs_recv_with(ours, check, NULL, random >> 7 & 1 ? 0 : deadline_ns);
        MUST(n >= 0 || n == -ETIMEDOUT || n == -ECANCELED);
        return n;
    }
}

static atomic_bool is_received;

static void *receive_stream(void *unused)
{
    unsigned random = 1;
    MUST_EQ(gs_recv_ahead(ours), 0);
    do
        random = random * 1103515245 + 12345;
    while (receive_somehow(random >> 4));
    MUST_EQ(received, STREAM);
    atomic_store(&is_received, true);
    return unused;
}

static void *exchange_stream(void *unused)
{
    pthread_t peer;
    connect_both();
    received = ends = said = 0;
    atomic_store(&is_received, false);
    struct gs_thread *thread = spawn(receive_stream, NULL);
    MUST_EQ(pthread_create(&peer, NULL, say_stream, NULL), 0);
    while (!atomic_load(&is_received))
        gs_thread_sleep(after(GS_MILLISECOND));
    join(thread);
    pthread_join(peer, NULL);
    close_both();
    return unused;
}

TEST(no_byte_is_lost_however_the_calls_alternate)
{
    need_ring();
    run_both(exchange_stream);
}

/* More sockets than the ring has buffers at first, of which all receive at once. */
enum { MANY = 100 };
static int pairs[MANY][2];

static ssize_t count(void *data, const void *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)data += n;
    return (ssize_t)n;
}

static void *receive_pair(void *pair)
{
    size_t n = 0;
    int fd = *(int *)pair;
    MUST_EQ(gs_recv_ahead(fd), 0);
    while (n < 3000)
        MUST(gs_recv_with(fd, count, &n, GS_NEVER) > 0);
    MUST_EQ(gs_recv_with(fd, count, &n, GS_NEVER), 0);
    MUST_EQ(n, 3000);
    gs_close(fd);
    return NULL;
}

static void *receive_all(void *unused)
{
    static const char zeros[3000];
    struct gs_thread *threads[MANY];
    for (int i = 0; i < MANY; i++) {
        connect_both();
        pairs[i][0] = ours;
        pairs[i][1] = theirs;
        threads[i] = spawn(receive_pair, pairs[i]);
    }
    for (int round = 0; round < 3; round++) {
        gs_thread_sleep(after(GS_MILLISECOND));
        for (int i = 0; i < MANY; i++)
            MUST_EQ(gs_sys_send(pairs[i][1], zeros, 1000, 0), 1000);
    }
    for (int i = 0; i < MANY; i++)
        gs_sys_close(pairs[i][1]);
    for (int i = 0; i < MANY; i++)
        join(threads[i]);
    return unused;
}

TEST(sockets_share_the_buffers)
{
    need_ring();
    run_both(receive_all);
}
