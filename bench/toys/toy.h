/* The smallest web servers, one over each way of concurrency, to compare these alone. All have one structure: one accepts, each
 * connection gets a new thread or process, without a pool, and what HTTP they know is here.
 *
 *     NAME [ADDRESS]      takes a free port of 127.0.0.1 or that address, prints "listening on http://ADDRESS:PORT", and
 *                         serves one page of 305 bytes, whatever is asked
 *
 * A request is what ends with an empty line; nothing else is looked at, but whether the connection is to be kept. */
#ifndef GS_BENCH_TOY_H
#define GS_BENCH_TOY_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOY_BODY 305
#define TOY_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 305\r\n\r\n"
#define TOY_ANSWER (sizeof TOY_HEAD - 1 + TOY_BODY)
#define TOY_REQUEST 2048
#define TOY_STACK (64 << 10) /* of a thread */

/* One connection's request, so far. */
struct toy {
    size_t n;
    bool is_last;
    char bytes[TOY_REQUEST];
};

static char toy_answer[TOY_ANSWER];

static inline void toy_must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "toy: %s failed\n", what);
    exit(2);
}

/* Returns a listening socket, once its address is told. */
static inline int toy_listen(const char *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    signal(SIGPIPE, SIG_IGN);
    memcpy(toy_answer, TOY_HEAD, sizeof TOY_HEAD - 1);
    memset(toy_answer + sizeof TOY_HEAD - 1, 'x', TOY_BODY);
    toy_must(inet_pton(AF_INET, host, &address.sin_addr) == 1, "an IPv4 address");
    toy_must(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
                 !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) &&
                 !bind(fd, (struct sockaddr *)&address, length) && !listen(fd, 4096) &&
                 !getsockname(fd, (struct sockaddr *)&address, &length),
             "listening");
    printf("listening on http://%s:%u\n", host, ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Where the next bytes of a request go. */
static inline char *toy_room(struct toy *toy, size_t *ret_n)
{
    *ret_n = sizeof toy->bytes - toy->n;
    return toy->bytes + toy->n;
}

enum toy_next { TOY_RECEIVE, TOY_SEND, TOY_END };

/* n bytes came. TOY_SEND: send toy_answer. */
static inline enum toy_next toy_received(struct toy *toy, ssize_t n)
{
    static const char close[] = "Connection: close";
    if (n <= 0 || toy->is_last)
        return TOY_END;
    toy->n += (size_t)n;
    if (toy->n < 4 || memcmp(toy->bytes + toy->n - 4, "\r\n\r\n", 4))
        return toy->n == sizeof toy->bytes ? TOY_END : TOY_RECEIVE;
    toy->is_last = memmem(toy->bytes, toy->n, close, sizeof close - 1);
    toy->n = 0;
    return TOY_SEND;
}

/* n bytes of the answer were sent. */
static inline enum toy_next toy_sent(const struct toy *toy, ssize_t n)
{
    return n == (ssize_t)TOY_ANSWER && !toy->is_last ? TOY_RECEIVE : TOY_END;
}

/* A whole connection, for those who wait within the calls. */
#define TOY_SERVE(receive_, send_, socket_)                                                        \
    do {                                                                                           \
        struct toy toy_;                                                                           \
        size_t room_;                                                                              \
        enum toy_next next_ = TOY_RECEIVE;                                                         \
        toy_.n = 0;                                                                                \
        toy_.is_last = false;                                                                      \
        while (next_ != TOY_END) {                                                                 \
            char *bytes_ = toy_room(&toy_, &room_);                                                \
            next_ = toy_received(&toy_, receive_(socket_, bytes_, room_));                         \
            if (next_ == TOY_SEND)                                                                 \
                next_ = toy_sent(&toy_, send_(socket_, toy_answer, TOY_ANSWER));                   \
        }                                                                                          \
    } while (0)

#endif
