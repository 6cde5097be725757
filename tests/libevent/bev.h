/* What tests of bufferevents share: a base, a trace of what happened, callbacks that write it, and
 * a socket pair. A trace is compared as text: the order of callbacks is part of each test. */
#ifndef GS_TESTS_BEV_H
#define GS_TESTS_BEV_H

#include "tests/test.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdarg.h>

static char trace[8192];
static size_t trace_length;

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof trace - trace_length;
    int n = vsnprintf(trace + trace_length, room, format, arguments);
    va_end(arguments);
    trace_length += n > 0 && (size_t)n < room ? (size_t)n : 0;
}

/* Compare what was noted since the last comparison. */
#define CHECK_TRACE(expected)                                                                      \
    do {                                                                                           \
        trace_length = 0;                                                                          \
        char noted_[sizeof trace];                                                                 \
        strcpy(noted_, trace);                                                                     \
        trace[0] = '\0';                                                                           \
        CHECK_STR(noted_, expected);                                                               \
    } while (0)

static const char *what_text(short what)
{
    static char text[64];
    snprintf(text, sizeof text, "%s%s%s%s%s%s", what & BEV_EVENT_READING ? "R" : "",
             what & BEV_EVENT_WRITING ? "W" : "", what & BEV_EVENT_EOF ? " eof" : "",
             what & BEV_EVENT_ERROR ? " error" : "", what & BEV_EVENT_TIMEOUT ? " timeout" : "",
             what & BEV_EVENT_CONNECTED ? " connected" : "");
    return text;
}

static inline size_t input_length(struct bufferevent *bev)
{
    return evbuffer_get_length(bufferevent_get_input(bev));
}

static inline size_t output_length(struct bufferevent *bev)
{
    return evbuffer_get_length(bufferevent_get_output(bev));
}

/* The context of these callbacks is a name, or NULL. */
static inline void note_read(struct bufferevent *bev, void *name)
{
    note("%s:read %zu;", name ? (char *)name : "", input_length(bev));
}

static inline void note_write(struct bufferevent *bev, void *name)
{
    note("%s:write %zu;", name ? (char *)name : "", output_length(bev));
}

static inline void note_event(struct bufferevent *bev, short what, void *name)
{
    (void)bev;
    note("%s:event %s;", name ? (char *)name : "", what_text(what));
}

static inline void note_all(struct bufferevent *bev, const char *name)
{
    bufferevent_setcb(bev, note_read, note_write, note_event, (void *)name);
}

/* Run until nothing more happens without time passing. */
static inline void settle(struct event_base *base)
{
    for (int i = 0; i < 8; i++)
        event_base_loop(base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
}

static inline void on_limit(evutil_socket_t fd, short what, void *flag)
{
    (void)fd;
    (void)what;
    *(int *)flag = 1;
}

/* Run until *flag, or until the trace has the text if there is one; at most 20 seconds. */
static inline void run_until_either(struct event_base *base, const volatile int *flag,
                                    const char *text)
{
    int late = 0;
    struct event *limit = evtimer_new(base, on_limit, &late);
    struct timeval seconds = {20, 0};
    evtimer_add(limit, &seconds);
    while (!late && !(text ? strstr(trace, text) != NULL : *flag))
        event_base_loop(base, EVLOOP_ONCE);
    event_free(limit);
    CHECK(!late);
}

static inline void run_until(struct event_base *base, const volatile int *flag)
{
    run_until_either(base, flag, NULL);
}

static inline void run_until_noted(struct event_base *base, const char *text)
{
    run_until_either(base, NULL, text);
}

static inline void make_sockets(int fds[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
}

static inline bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* A bufferevent on the first of a pair of sockets, which it does not close. */
static inline struct bufferevent *new_on_socket(struct event_base *base, int ret_fds[2])
{
    make_sockets(ret_fds);
    return bufferevent_socket_new(base, ret_fds[0], 0);
}

/* Free both, and close the sockets. */
static inline void free_with_sockets(struct bufferevent *bev, struct event_base *base,
                                     const int fds[2])
{
    bufferevent_free(bev);
    event_base_free(base);
    close(fds[0]);
    close(fds[1]);
}

/* A test of a bufferevent `bev` on fds[0], whose callbacks are noted. */
#define SOCKET_TEST(name_)                                                                         \
    static void name_##_body(struct event_base *base, struct bufferevent *bev, const int *fds);    \
    TEST(name_)                                                                                    \
    {                                                                                              \
        int fds[2];                                                                                \
        struct event_base *base = event_base_new();                                                \
        struct bufferevent *bev = new_on_socket(base, fds);                                        \
        note_all(bev, "b");                                                                        \
        name_##_body(base, bev, fds);                                                              \
        free_with_sockets(bev, base, fds);                                                         \
    }                                                                                              \
    static void name_##_body(__attribute__((unused)) struct event_base *base,                      \
                             struct bufferevent *bev, __attribute__((unused)) const int *fds)

#endif
