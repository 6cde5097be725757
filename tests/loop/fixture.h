/* Fixture of the loop tests: a loop, connected descriptors, and a log of the calls. */
#ifndef GS_TESTS_LOOP_FIXTURE_H
#define GS_TESTS_LOOP_FIXTURE_H

#include "loop/state.h"
#include "tests/test.h"

#include <gossamer/loop.h>
#include <gossamer/sys.h>

static char calls[256]; /* contains, for each call, the string to which the watcher's data points */

static inline void log_call(const struct gs_watcher *watcher)
{
    strncat(calls, watcher->data, sizeof calls - strlen(calls) - 1);
}

/* Callbacks that log the call. */

static inline void log_io(struct gs_io *io, unsigned events)
{
    (void)events;
    log_call(&io->watcher);
}

static inline void log_timer(struct gs_timer *timer)
{
    log_call(&timer->watcher);
}

static inline void log_signal(struct gs_signal *signal)
{
    log_call(&signal->watcher);
}

static inline void log_async(struct gs_async *async)
{
    log_call(&async->watcher);
}

static inline void log_idle(struct gs_idle *idle)
{
    log_call(&idle->watcher);
}

static inline void log_prepare(struct gs_prepare *prepare)
{
    log_call(&prepare->watcher);
}

static inline void log_check(struct gs_check *check)
{
    log_call(&check->watcher);
}

static inline void clear_calls(void)
{
    calls[0] = 0;
}

static inline struct gs_loop *new_loop(void)
{
    struct gs_loop *loop = NULL;
    int err = gs_loop_new(&loop);
    if (err) {
        fprintf(stderr, "gs_loop_new: %d\n", err);
        exit(1);
    }
    const char *requested = getenv("GS_POLLER");
    if (requested && strcmp(gs_loop_poller(loop), requested))
        SKIP("no %s here", requested);
    clear_calls();
    return loop;
}

static inline bool is_on(const struct gs_loop *loop, const char *poller)
{
    return !strcmp(gs_loop_poller(loop), poller);
}

/* Run an iteration that does not wait. */
static inline int step(struct gs_loop *loop)
{
    int called = gs_loop_run_once(loop, 0);
    gs_loop_check(loop);
    return called;
}

static inline uint64_t interest_calls(const struct gs_loop *loop)
{
    struct gs_loop_counts counts;
    gs_loop_counts(loop, &counts);
    return counts.interest_calls;
}

/* Checks the number of system calls for changes of interest, which is 0 with io_uring. */
#define CHECK_INTEREST(loop_, calls_)                                                              \
    do {                                                                                           \
        if (is_on(loop_, "epoll"))                                                                 \
            CHECK_EQ(interest_calls(loop_), calls_);                                               \
        if (is_on(loop_, "io_uring"))                                                              \
            CHECK_EQ(interest_calls(loop_), 0);                                                    \
    } while (0)

/* Open two connected non-blocking sockets. */
static inline void connect_pair(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) {
        perror("socketpair");
        exit(1);
    }
}

static inline void close_pair(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

static inline void put_byte(int fd)
{
    if (write(fd, "x", 1) != 1)
        abort();
}

static inline void take_byte(int fd)
{
    char byte;
    if (read(fd, &byte, 1) != 1)
        abort();
}

/* Write until the socket is full. */
static inline void fill(int fd)
{
    static const char bytes[4096];
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
}

static inline void drain(int fd)
{
    char bytes[4096];
    while (read(fd, bytes, sizeof bytes) > 0)
        ;
}

static inline void start_io(struct gs_io *io, int fd, unsigned wanted)
{
    gs_io_set(io, fd, wanted);
    int err = gs_io_start(io);
    if (err) {
        fprintf(stderr, "gs_io_start: %d\n", err);
        exit(1);
    }
}

#endif
